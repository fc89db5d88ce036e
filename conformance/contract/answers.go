// Package contract holds what a server says against its published documents: answers of REST against
// OpenAPI, frames of the gateway against AsyncAPI.
//
// Contract. A document is read once; Check then answers what is wrong, in words for a person, or nil. Nothing
// of the server is known here but the documents. Schemas are those of JSON Schema 2020-12, which both documents
// use (OpenAPI 3.1 §4.7.2, AsyncAPI 3.0); formats are asserted. Understood is what the documents of this project
// use: answers written out where they belong, JSON bodies; other bodies are taken as they are.
//
// Blocking and concurrency. Answers and Frames are safe for concurrent use; checks only compute.
package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Answers knows an OpenAPI document.
type Answers struct {
	// routes finds the template of a path; its handlers are never called.
	routes *http.ServeMux
	// operations holds, by the route's pattern, what may be answered.
	operations map[string]responses
}

type (
	// responses are an operation's by the status as the document writes it, or "default".
	responses map[string]bodies
	// bodies are an answer's by media type; nil: any content.
	bodies map[string]*jsonschema.Schema
)

// openDocument is what is read of the document.
type openDocument struct {
	OpenAPI string                                `json:"openapi"`
	Paths   map[string]map[string]json.RawMessage `json:"paths"`
}

type openOperation struct {
	Parameters []struct {
		In   string `json:"in"`
		Name string `json:"name"`
	} `json:"parameters"`
	RequestBody openBody `json:"requestBody"`
	// Responses are each written out; a reference has no description and is refused.
	Responses map[string]openBody `json:"responses"`
}

type openBody struct {
	Description string                     `json:"description"`
	Content     map[string]json.RawMessage `json:"content"`
}

// NewAnswers reads an OpenAPI 3.1 document. One that is itself not valid is an error: a schema that does not
// compile, a reference to nothing, an operation without answers or with a path that names other parameters.
func NewAnswers(document []byte) (*Answers, error) {
	var read openDocument
	compiler, err := compilerFor(document, &read)
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	if !strings.HasPrefix(read.OpenAPI, "3.1.") {
		return nil, fmt.Errorf("read OpenAPI document: version %q: %w", read.OpenAPI, errUnknown)
	}
	a := &Answers{routes: http.NewServeMux(), operations: map[string]responses{}}
	for path, methods := range read.Paths {
		for method, text := range methods {
			if err := a.add(compiler, path, method, text); err != nil {
				return nil, fmt.Errorf("use %s %s of OpenAPI document: %w", method, path, err)
			}
		}
	}
	return a, nil
}

func (a *Answers) add(compiler *jsonschema.Compiler, path, method string, text json.RawMessage) error {
	var operation openOperation
	if err := json.Unmarshal(text, &operation); err != nil {
		return fmt.Errorf("read operation: %w", err)
	}
	if len(operation.Responses) == 0 {
		return errors.New("it has no answers")
	}
	at := "/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path) + "/" + method
	for i, parameter := range operation.Parameters {
		if parameter.In == "path" && !strings.Contains(path, "{"+parameter.Name+"}") {
			return fmt.Errorf("its path has no {%s}", parameter.Name)
		}
		if _, err := compiler.Compile(documentURL + "#" + at + "/parameters/" + strconv.Itoa(i) + "/schema"); err != nil {
			return fmt.Errorf("parameter %s: %w", parameter.Name, err)
		}
	}
	if _, err := compileBodies(compiler, at+"/requestBody", operation.RequestBody); err != nil {
		return err
	}
	known := responses{}
	for status, response := range operation.Responses {
		if response.Description == "" {
			return fmt.Errorf("answer %s has no description", status)
		}
		made, err := compileBodies(compiler, at+"/responses/"+status, response)
		if err != nil {
			return err
		}
		known[status] = made
	}
	pattern := strings.ToUpper(method) + " " + path
	a.routes.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	a.operations[pattern] = known
	return nil
}

func compileBodies(compiler *jsonschema.Compiler, at string, body openBody) (bodies, error) {
	made := bodies{}
	for mediaType := range body.Content {
		if !isJSON(mediaType) {
			made[mediaType] = nil
			continue
		}
		schema, err := compiler.Compile(documentURL + "#" + at + "/content/" + strings.ReplaceAll(mediaType, "/", "~1") + "/schema")
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", mediaType, at, err)
		}
		made[mediaType] = schema
	}
	return made, nil
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// Check holds an answer with its body against the document.
func (a *Answers) Check(request *http.Request, answer *http.Response, body []byte) error {
	if err := a.check(request, answer, body); err != nil {
		return fmt.Errorf("%s %s answered %d %s: %w", request.Method, request.URL.Path, answer.StatusCode, body, err)
	}
	return nil
}

func (a *Answers) check(request *http.Request, answer *http.Response, body []byte) error {
	_, pattern := a.routes.Handler(request)
	operation, known := a.operations[pattern]
	if !known {
		return fmt.Errorf("operation: %w", errUnknown)
	}
	allowed, known := operation[strconv.Itoa(answer.StatusCode)]
	if !known {
		allowed, known = operation["default"]
	}
	if !known {
		return fmt.Errorf("status: %w", errUnknown)
	}
	if len(allowed) == 0 {
		if len(body) > 0 {
			return errors.New("the document knows no body here")
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("content type: %w", err)
	}
	schema, known := allowed[mediaType]
	if !known {
		schema, known = allowed["*/*"]
	}
	if !known {
		return fmt.Errorf("content type %s, and not one of %v: %w", mediaType, slices.Sorted(maps.Keys(allowed)), errUnknown)
	}
	if schema == nil {
		return nil
	}
	return validate(schema, body)
}

func validate(schema *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("hold against schema: %w", err)
	}
	return nil
}

var errUnknown = errors.New("the document knows no such thing")
