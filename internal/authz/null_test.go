package authz

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAuditDetailsHaveNoNull(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{
		`{"title":null,"archived":false}`:    `{"archived":false}`,
		`{"title":"null"}`:                   `{"title":"null"}`,
		`{"a":[1,null,{"b":null}],"n":null}`: `{"a":[1,{}]}`,
		`{"seq":9007199254740993,"x":null}`:  `{"seq":9007199254740993}`,
		`null`:                               ``,
		`{}`:                                 `{}`,
	} {
		require.Equal(t, want, string(withoutNull([]byte(detail))), detail)
	}
}
