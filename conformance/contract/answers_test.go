package contract_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/contract"
)

const document = `
openapi: 3.1.0
paths:
  /things/{id}:
    get:
      parameters:
        - {in: path, name: id, schema: {type: string, format: uuid}}
      responses:
        "200":
          description: OK
          content:
            application/json: {schema: {$ref: "#/components/schemas/Thing"}}
        "204": {description: Nothing}
        default:
          description: A problem
          content:
            application/problem+json: {schema: {type: object, required: [code]}}
  /things/{id}/content:
    get:
      responses:
        "200": {description: Bytes, content: {"*/*": {schema: {type: string}}}}
components:
  schemas:
    Thing:
      type: object
      additionalProperties: false
      required: [id]
      properties:
        id: {type: string, format: uuid}
        at: {type: string, format: date-time}
        count: {type: integer, maximum: 9007199254740993}
`

func TestAnswers(t *testing.T) {
	t.Parallel()
	known, err := contract.NewAnswers([]byte(document))
	require.NoError(t, err)
	const id = "018f4f6e-2c5b-7d3a-9e10-0123456789ab"
	for name, c := range map[string]struct {
		method, path, mediaType, body string
		status                        int
		wrong                         string // empty: as the document says
	}{
		"as described":       {path: "/things/1", status: 200, mediaType: "application/json; charset=utf-8", body: `{"id":"` + id + `","count":9007199254740993}`},
		"numbers are exact":  {path: "/things/1", status: 200, mediaType: "application/json", body: `{"id":"` + id + `","count":9007199254740994}`, wrong: "count"},
		"a query":            {path: "/things/1?x=y", status: 200, mediaType: "application/json", body: `{"id":"` + id + `"}`},
		"nothing":            {path: "/things/1", status: 204},
		"a body too many":    {path: "/things/1", status: 204, body: "x", wrong: "no body"},
		"by default":         {path: "/things/1", status: 418, mediaType: "application/problem+json", body: `{"code":"teapot"}`},
		"not the default":    {path: "/things/1", status: 418, mediaType: "application/problem+json", body: `{}`, wrong: "code"},
		"an unknown field":   {path: "/things/1", status: 200, mediaType: "application/json", body: `{"id":"` + id + `","more":1}`, wrong: "more"},
		"a missing field":    {path: "/things/1", status: 200, mediaType: "application/json", body: `{}`, wrong: "id"},
		"a wrong format":     {path: "/things/1", status: 200, mediaType: "application/json", body: `{"id":"1"}`, wrong: "uuid"},
		"a wrong time":       {path: "/things/1", status: 200, mediaType: "application/json", body: `{"id":"` + id + `","at":"today"}`, wrong: "date-time"},
		"no JSON":            {path: "/things/1", status: 200, mediaType: "application/json", body: `{`, wrong: "JSON"},
		"another type":       {path: "/things/1", status: 200, mediaType: "text/html", body: `{}`, wrong: "text/html"},
		"no type":            {path: "/things/1", status: 200, body: `{}`, wrong: "content type"},
		"an unknown path":    {path: "/other", status: 200, wrong: "operation"},
		"an unknown method":  {method: http.MethodPost, path: "/things/1", status: 200, wrong: "operation"},
		"any bytes":          {path: "/things/1/content", status: 200, mediaType: "image/png", body: "\x89"},
		"an unknown status":  {path: "/things/1/content", status: 206, mediaType: "image/png", body: "\x89", wrong: "status"},
		"neither type there": {path: "/things/1/content", status: 200, body: "\x89", wrong: "content type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.method == "" {
				c.method = http.MethodGet
			}
			answer := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.mediaType}}}
			err := known.Check(httptest.NewRequest(c.method, c.path, http.NoBody), answer, []byte(c.body))
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.wrong)
		})
	}
}

func TestDocumentsThatAreWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, made, wrong string }{
		"a reference to nothing":     {"schemas/Thing", "schemas/Other", "Other"},
		"no schema":                  {"type: object", "type: thing", "thing"},
		"an answer undescribed":      {"description: Nothing", "", "204"},
		"a parameter not in the way": {"name: id,", "name: key,", "key"},
		"another version":            {"3.1.0", "3.0.3", "3.0.3"},
		"no YAML":                    {"paths:", "paths: [", "YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := contract.NewAnswers([]byte(strings.Replace(document, c.old, c.made, 1)))
			require.ErrorContains(t, err, c.wrong)
		})
	}
}
