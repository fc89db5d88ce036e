package workspace

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// bodies answers the schemas of every route.
func bodies() *schemas {
	s := newSchemas()
	documentOf(Routes(), s)
	return s
}

func pointers(err error) []string {
	var all []string
	for _, problem := range fault.ExtraOf(fault.From(err)).Errors {
		all = append(all, problem.Pointer)
	}
	return all
}

func TestStrictBodies(t *testing.T) {
	t.Parallel()
	s := bodies()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for name, one := range map[string]struct {
		of       any
		body     string
		code     code.Code
		pointers []string
	}{
		"fine":                           {wire.NewChannel{}, `{"space_id":"` + id + `","kind":"text","name":"general"}`, "", nil},
		"no JSON":                        {wire.NewSpace{}, `{"name":`, code.MalformedJSON, nil},
		"bare word":                      {wire.NewSpace{}, `hello`, code.MalformedJSON, nil},
		"empty":                          {wire.NewSpace{}, ``, code.MalformedJSON, nil},
		"empty where nothing is needed":  {Nothing{}, ``, "", nil},
		"no object":                      {wire.NewSpace{}, `[1]`, code.ValidationFailed, []string{""}},
		"null":                           {wire.NewSpace{}, `null`, code.ValidationFailed, []string{""}},
		"missing member":                 {wire.NewSpace{}, `{}`, code.ValidationFailed, []string{"/name"}},
		"unknown member":                 {wire.NewSpace{}, `{"name":"a","naem":"b"}`, code.ValidationFailed, []string{"/naem"}},
		"another case":                   {wire.NewSpace{}, `{"Name":"a"}`, code.ValidationFailed, []string{"/Name"}},
		"a member is null":               {wire.NewChannel{}, `{"space_id":"` + id + `","kind":"text","name":"a","topic":null}`, code.ValidationFailed, []string{"/topic"}},
		"null in opaque JSON":            {wire.PutSetting{}, `{"value":{"a":[null]}}`, code.ValidationFailed, []string{"/value/a/0"}},
		"repeated member":                {wire.NewSpace{}, `{"name":"a","name":"b"}`, code.ValidationFailed, []string{"/name"}},
		"repeated in opaque JSON":        {wire.PutSetting{}, `{"value":{"a":1,"a":2}}`, code.ValidationFailed, []string{"/value/a"}},
		"behind the object":              {wire.NewSpace{}, `{"name":"a"} {}`, code.ValidationFailed, []string{""}},
		"invalid UTF-8":                  {wire.NewSpace{}, "{\"name\":\"\xff\"}", code.ValidationFailed, []string{"/name"}},
		"half a pair":                    {wire.NewSpace{}, `{"name":"\ud800"}`, code.ValidationFailed, []string{"/name"}},
		"the character NUL":              {wire.NewSpace{}, `{"name":"a\u0000"}`, code.ValidationFailed, []string{"/name"}},
		"wrong type":                     {wire.NewSpace{}, `{"name":7}`, code.ValidationFailed, []string{"/name"}},
		"too short":                      {wire.NewSpace{}, `{"name":""}`, code.ValidationFailed, []string{"/name"}},
		"no UUID":                        {wire.MoveThread{}, `{"channel_id":"7"}`, code.ValidationFailed, []string{"/channel_id"}},
		"none of the words":              {wire.NewChannel{}, `{"space_id":"` + id + `","kind":"voice","name":"a"}`, code.ValidationFailed, []string{"/kind"}},
		"not a whole number":             {wire.PutReadState{}, `{"last_read_seq":1.5}`, code.ValidationFailed, []string{"/last_read_seq"}},
		"a number beyond int64":          {wire.PutReadState{}, `{"last_read_seq":9223372036854775808}`, code.ValidationFailed, []string{"/last_read_seq"}},
		"an endless number":              {wire.PutReadState{}, `{"last_read_seq":1e999}`, code.ValidationFailed, nil},
		"no time":                        {wire.PutMember{}, `{"expires_at":"tomorrow"}`, code.ValidationFailed, []string{"/expires_at"}},
		"in a list":                      {wire.PutSettings{}, `{"agents":[{"agent_id":"` + id + `","respond":"loudly"}]}`, code.ValidationFailed, []string{"/agents/0/respond"}},
		"every problem at once":          {wire.NewChannel{}, `{"space_id":"x","name":"","extra":1}`, code.ValidationFailed, []string{"/extra", "/kind", "/name", "/space_id"}},
		"nested without end":             {wire.PutSetting{}, `{"value":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, code.ValidationFailed, nil},
		"a name with a slash is escaped": {wire.NewSpace{}, `{"name":"a","x/y":1}`, code.ValidationFailed, []string{"/x~1y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := s.decode(reflect.TypeOf(one.of), []byte(one.body))
			if one.code == "" {
				require.NoError(t, err)
				require.IsType(t, one.of, value)
				return
			}
			require.True(t, fault.Is(err, one.code), "%v", err)
			if one.pointers != nil {
				require.Equal(t, one.pointers, pointers(err), "%v", err)
			}
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	body := `{"name":"a"` + strings.Repeat(`,"name":"a"`, 10*maxProblems) + `}`
	_, err := bodies().decode(reflect.TypeFor[wire.NewSpace](), []byte(body))
	require.Len(t, pointers(err), maxProblems)
}

func FuzzBody(f *testing.F) {
	s := bodies()
	var types []reflect.Type
	for _, route := range Routes() {
		if route.handler.body != nil {
			types = append(types, route.handler.body)
		}
	}
	f.Add(0, []byte(`{"name":"a"}`))
	f.Add(1, []byte(`{"name":"a","name":"\ud800","topic":null}`))
	f.Add(2, []byte(`{"value":{"a":[1e400,"\u0000"]}} x`))
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		of := types[int(uint(which)%uint(len(types)))]
		value, err := s.decode(of, body)
		if err != nil {
			refusal := fault.From(err)
			require.Contains(t, []code.Code{code.MalformedJSON, code.ValidationFailed}, refusal.Code, "%v", err)
			require.True(t, utf8.ValidString(refusal.Message))
			return
		}
		// What was taken is taken again, as the same, when it is sent as we write it.
		again, err := s.decode(of, encoded(value))
		require.NoError(t, err, "%s", encoded(value))
		require.Equal(t, encoded(value), encoded(again))
	})
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		`"7"`: 7, ` "7" `: 7, `"9223372036854775807"`: 1<<63 - 1, `*`: -1,
		`7`: 0, `W/"7"`: 0, `""`: 0, `"0"`: 0, `"07"`: 0, `"+7"`: 0, `"-7"`: 0, `"7`: 0, `"7", "8"`: 0, `"x"`: 0, `"9223372036854775808"`: 0, ``: 0, `**`: 0,
	} {
		t.Run("ES-13.3 "+text, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPatch, "/", nil)
			r.Header[headerIfMatch] = []string{text}
			version, err := conditionOf(r)
			if want == 0 {
				require.True(t, fault.Is(err, code.ValidationFailed), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, *version)
		})
	}
	version, err := conditionOf(httptest.NewRequest(http.MethodPatch, "/", nil))
	require.NoError(t, err)
	require.Nil(t, version)
}

func FuzzIfMatch(f *testing.F) {
	f.Add(`"7"`)
	f.Add(`W/"7"`)
	f.Fuzz(func(t *testing.T, text string) {
		if version, valid := versionOfTag(text); valid {
			require.Positive(t, version)
			require.Equal(t, text, tagOf(version))
		}
	})
}

func TestCursors(t *testing.T) {
	t.Parallel()
	cursor := cursorOf("/a", "9_x")
	position, err := positionOf("/a", cursor)
	require.NoError(t, err)
	require.Equal(t, "9_x", position)
	for _, wrong := range []string{"x", cursor + "=", cursor[1:], cursorOf("/b", "9_x"), strings.Repeat("a", maxCursor+1), "!", cursorOf("/a", "\xff")} {
		_, err := positionOf("/a", wrong)
		require.True(t, fault.Is(err, code.ValidationFailed), wrong)
	}
	require.Empty(t, cursorOf("/a", ""), "the last page has no cursor")
}

func FuzzCursor(f *testing.F) {
	f.Add(cursorOf("/a", "1"))
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, cursor string) {
		position, err := positionOf("/a", cursor)
		if err != nil || cursor == "" {
			return
		}
		require.NotEmpty(t, position)
		require.Equal(t, cursor, cursorOf("/a", position), "one position has one cursor")
	})
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, want := range map[string]struct{ valid, recorded bool }{
		"00-" + id + "-" + span + "-01":                          {true, true},
		"00-" + id + "-" + span + "-00":                          {true, false},
		"cc-" + id + "-" + span + "-01-what-comes-later":         {true, true},
		"00-" + id + "-" + span + "-01-more":                     {},
		"ff-" + id + "-" + span + "-01":                          {},
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":     {},
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":       {},
		"00-" + strings.ToUpper(id) + "-" + span + "-01":         {},
		"00-" + id + "-" + span:                                  {},
		"":                                                       {},
		"00-" + id[1:] + "-" + span + "x-01":                     {},
		"00_" + id + "_" + span + "_01":                          {},
		"cc-" + id + "-" + span + "-01x":                         {},
		"00-" + strings.Repeat("g", 32) + "-" + span + "-01":     {},
		strings.Repeat("-", 55):                                  {},
		"00-" + id + "-" + span + "-0\x00":                       {},
		"00-" + id + "-" + span + "-01" + strings.Repeat("a", 9): {},
	} {
		traceID, recorded, valid := parseTraceparent(text)
		require.Equal(t, want.valid, valid, text)
		require.Equal(t, want.recorded, recorded, text)
		if valid {
			require.Equal(t, id, traceID)
		}
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, text string) {
		if traceID, _, valid := parseTraceparent(text); valid {
			require.Len(t, traceID, 32)
		}
	})
}
