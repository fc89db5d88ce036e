package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestNewsAmongABatch(t *testing.T) {
	t.Parallel()
	for kinds, want := range map[string]int64{
		"":                       0,
		"assistant ask_resolved": 0,
		"turn_end":               1,
		"x ask y":                2,
		"turn_end turn_end":      2,
		"ask ask":                2,
		"turn_end ask turn_end":  3,
		"ask turn_end":           2,
		"ask x turn_end ask":     4,
	} {
		var events []wire.Event
		for i, kind := range strings.Fields(kinds) {
			events = append(events, wire.Event{Kind: kind, Seq: int64(i + 1)})
		}
		news := newsAmong(events)
		if want == 0 {
			require.Nil(t, news, kinds)
			continue
		}
		require.NotNil(t, news, kinds)
		require.Equal(t, want, news.Seq, kinds)
	}
}

// Without news nothing is asked of the database: there is none here.
func TestNoNewsCostNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, new(Service).tell(nil, nil, []wire.Event{{Kind: "assistant"}, {Kind: "tool_call"}}))
}

func TestRecipientIn(t *testing.T) {
	t.Parallel()
	good := "age1" + strings.Repeat("q", 58)
	for capabilities, want := range map[string]string{
		`[]`:                "",
		`["screen","age1"]`: "",
		`["` + good + `"]`:  good,
		`["screen","` + good[:61] + `b","` + good + `","age1` + strings.Repeat("p", 58) + `"]`: good,
		`["` + strings.ToUpper(good) + `"]`:                                                    "",
		`["` + good + `q"]`:                                                                    "",
		`[" ` + good + `"]`:                                                                    "",
	} {
		got, err := identity.RecipientIn(capabilities)
		require.NoError(t, err)
		require.Equal(t, want, got, capabilities)
	}
	_, err := identity.RecipientIn(`["age1`)
	require.Error(t, err)
}
