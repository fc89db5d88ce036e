package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/yaml"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The names of the ways to authenticate, in the document.
const (
	schemeDPoP   = "dpop"
	schemeBearer = "bearer"
)

// documentOf makes the OpenAPI document of the routes, as YAML, and with it every schema.
func documentOf(routes []*Route, s *schemas) []byte {
	document := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Cairn Workspace", Version: strconv.Itoa(wire.ProtocolVersion),
			Description: "Team chat for people and agents over one commit-ordered event log. There is no null: what has no value is missing.",
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: "/"}},
		Components: &huma.Components{
			Schemas: s.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				schemeDPoP: {
					Type: "http", Scheme: "dpop",
					Description: "People: an access token with a proof of possession in the DPoP header (RFC 9449). " +
						"The nonce of the proof comes in the DPoP-Nonce header of answers.",
				},
				schemeBearer: {Type: "http", Scheme: "bearer", Description: "Agents and apps: an API token."},
			},
		},
		Extensions: map[string]any{},
	}
	for _, route := range routes {
		document.AddOperation(s.operation(route))
	}
	s.clean()
	return yamlOf(document)
}

func (s *schemas) operation(route *Route) *huma.Operation {
	op := &huma.Operation{
		Method: route.Method, Path: route.Path, OperationID: operationID(route), Summary: route.Summary, Tags: []string{route.Tag},
		Parameters: s.parameters(route), Responses: map[string]*huma.Response{},
		Security: []map[string][]string{{schemeDPoP: {}}, {schemeBearer: {}}},
	}
	if route.Access == Public {
		op.Security = []map[string][]string{}
	}
	if route.Action != "" {
		op.Extensions = map[string]any{"x-action": string(route.Action)}
	}
	h := &route.handler
	switch {
	case h.rawBody:
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}}}
	case h.body != nil:
		op.RequestBody = &huma.RequestBody{
			Required: !s.optional(h.body), Content: map[string]*huma.MediaType{typeJSON: {Schema: s.of(h.body)}},
		}
	default:
	}
	op.Responses[strconv.Itoa(h.status)] = s.success(route)
	if route.Replays {
		op.Responses["200"] = s.success(route)
		op.Responses["200"].Description = "Answered before; nothing was done again"
	}
	if h.content != "" && h.content != typeYAML {
		op.Responses["206"] = s.success(route)
		op.Responses["304"] = &huma.Response{Description: "If-None-Match names these bytes"}
	}
	op.Responses["default"] = &huma.Response{
		Description: "A problem (RFC 9457)",
		Headers:     map[string]*huma.Param{wire.HeaderTrace: header("Names the request in the server's log")},
		Content:     map[string]*huma.MediaType{typeProblem: {Schema: s.of(reflect.TypeFor[wire.Problem]())}},
	}
	return op
}

// operationID names an operation after its method and path: getThreadsIdMessages.
func operationID(route *Route) string {
	var name strings.Builder
	name.WriteString(strings.ToLower(route.Method))
	for _, word := range strings.FieldsFunc(strings.TrimPrefix(route.Path, Prefix), func(c rune) bool {
		return c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z'
	}) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

func (s *schemas) success(route *Route) *huma.Response {
	h := &route.handler
	response := &huma.Response{
		Description: http.StatusText(h.status),
		Headers:     map[string]*huma.Param{wire.HeaderTrace: header("Names the request in the server's log")},
	}
	if route.Access != Public {
		response.Headers[wire.HeaderDPoPNonce] = header("The nonce for the next proofs")
	}
	if route.keyed() || route.Replays {
		response.Headers[wire.HeaderIdempotentReplay] = header("true: this is the answer to an earlier request")
	}
	switch {
	case h.content != "":
		response.Content = map[string]*huma.MediaType{h.content: {Schema: &huma.Schema{}}}
	case h.answer != nil:
		response.Content = map[string]*huma.MediaType{typeJSON: {Schema: s.of(h.answer)}}
		if _, versioned := versionOf(reflect.Zero(h.answer).Interface()); versioned {
			response.Headers[headerETag] = header("The version, for If-Match")
		}
	default:
	}
	return response
}

func header(description string) *huma.Param {
	return &huma.Param{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

func (s *schemas) parameters(route *Route) []*huma.Param {
	var all []*huma.Param
	for _, name := range route.pathNames() {
		schema := &huma.Schema{Type: huma.TypeString}
		if isID(name) {
			schema.Format = "uuid"
		}
		all = append(all, &huma.Param{Name: name, In: "path", Required: true, Schema: schema})
	}
	for i := range route.Query {
		all = append(all, queryParameter(&route.Query[i]))
	}
	if route.IfMatch != Unconditional {
		all = append(all, &huma.Param{
			Name: headerIfMatch, In: "header", Description: `The ETag of the object as it is known, or *`,
			Required: false, Schema: &huma.Schema{Type: huma.TypeString},
		})
	}
	if route.keyed() {
		all = append(all, &huma.Param{
			Name: wire.HeaderIdempotencyKey, In: "header", Description: "A UUID of version 7: the write happens once, however often it is sent",
			Schema: &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		})
	}
	return all
}

func queryParameter(p *Param) *huma.Param {
	schema := &huma.Schema{Type: huma.TypeString}
	switch p.Kind {
	case Number:
		least := float64(p.Least)
		schema = &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &least}
	case ID:
		schema.Format = "uuid"
	case Choice:
		for _, value := range p.Values {
			schema.Enum = append(schema.Enum, value)
		}
	case Flag:
		schema = &huma.Schema{Type: huma.TypeBoolean}
	default:
		most := maxText
		schema.MaxLength = &most
	}
	return &huma.Param{Name: p.Name, In: "query", Description: p.Doc, Required: p.Required, Schema: schema}
}

// yamlOf writes a document that encodes as JSON as YAML, its members in order.
func yamlOf(document any) []byte {
	encoded, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("encode document: %v", err)) // it is made of our own table
	}
	var text bytes.Buffer
	if err := yaml.Convert(&text, bytes.NewReader(encoded)); err != nil {
		panic(fmt.Sprintf("write document: %v", err))
	}
	return text.Bytes()
}
