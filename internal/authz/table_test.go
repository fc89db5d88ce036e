package authz_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// named answers every constant of package action.
func named(t *testing.T) []action.Action {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "action/action.go", nil, 0)
	require.NoError(t, err)
	var all []action.Action
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value) //nolint:forcetypeassert // a constant
			require.NoError(t, err)
			all = append(all, action.Action(text))
		}
		return true
	})
	require.NotEmpty(t, all)
	return all
}

func TestTable(t *testing.T) {
	t.Parallel()
	t.Run("WS-AZ-4 every action has a rule, and every rule an action", func(t *testing.T) {
		t.Parallel()
		require.ElementsMatch(t, named(t), authz.Actions())
	})
	t.Run("WS-AZ-4 every type of event is received by an action of the table", func(t *testing.T) {
		t.Parallel()
		for _, kind := range eventlog.Catalogue() {
			rule, ok := authz.RuleOf(kind.Receive)
			require.True(t, ok, "%s is received by %q", kind.Name, kind.Receive)
			require.False(t, rule.StepUp, kind.Name)
			require.Equal(t, authz.RateNone, rule.Rate, kind.Name)
		}
	})
	t.Run("WS-AZ-4 an action without a rule is refused", func(t *testing.T) {
		t.Parallel()
		s := &authz.Snapshot{Principal: wire.Principal{ID: "ada", Kind: wire.KindUser, Status: wire.StatusActive}}
		require.True(t, fault.Is(authz.Authorize(s, authz.Caller{}, "nothing.do", authz.Resource{}, time.Now()), code.InternalError))
	})
	t.Run("WS-ID-5 who is in charge proves who it is", func(t *testing.T) {
		t.Parallel()
		for _, a := range []action.Action{action.GrantManage, action.GroupManage, action.UserManage, action.AgentManage, action.DeviceManage, action.KeyManage} {
			rule, _ := authz.RuleOf(a)
			require.True(t, rule.StepUp, a)
			require.True(t, rule.People, a)
		}
	})
}
