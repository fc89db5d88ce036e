// Package contract holds what a server says against its published documents: answers of REST against
// OpenAPI, frames of the gateway against AsyncAPI.
//
// Contract. A document is read once; Check then answers what is wrong, in words for a person, or nil. Nothing
// of the server is known here but the documents.
//
// Blocking and concurrency. Answers and Frames are safe for concurrent use; checks only compute.
package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pb33f/jsonschema/v6"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	validation "github.com/pb33f/libopenapi-validator/errors"
	"go.yaml.in/yaml/v3"
)

// Answers knows an OpenAPI document.
type Answers struct{ validator validator.Validator }

// NewAnswers reads an OpenAPI document. One that is itself not valid is an error.
func NewAnswers(document []byte) (*Answers, error) {
	read, err := libopenapi.NewDocument(document)
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	v, failures := validator.NewValidator(read, config.WithFormatAssertions())
	if len(failures) > 0 {
		return nil, fmt.Errorf("use OpenAPI document: %w", errors.Join(failures...))
	}
	if valid, failures := v.ValidateDocument(); !valid {
		return nil, fmt.Errorf("check OpenAPI document: %w", inWords(failures))
	}
	return &Answers{v}, nil
}

// Check holds an answer with its body against the document.
func (a *Answers) Check(request *http.Request, answer *http.Response, body []byte) error {
	copied := *answer
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if valid, failures := a.validator.ValidateHttpResponse(request, &copied); !valid {
		return fmt.Errorf("%s %s answered %d %s: %w", request.Method, request.URL.Path, answer.StatusCode, body, inWords(failures))
	}
	return nil
}

func inWords(failures []*validation.ValidationError) error {
	var words []string
	for _, failure := range failures {
		words = append(words, failure.Message+": "+failure.Reason)
		for _, detail := range failure.SchemaValidationErrors {
			words = append(words, detail.FieldPath+": "+detail.Reason)
		}
	}
	return errors.New(strings.Join(words, "; "))
}

// Side is who sends a frame.
type Side string

// The sides: names of the operations of the document.
const (
	FromClient Side = "fromClient"
	FromServer Side = "fromServer"
)

// Frames knows an AsyncAPI document. A frame is known by its op, a dispatch by the type of its event.
type Frames struct {
	schemas map[Side]map[string]*jsonschema.Schema
}

const documentURL = "mem:///asyncapi"

// asyncDocument is what is read of the document.
type asyncDocument struct {
	Operations map[Side]struct {
		Messages []struct {
			Ref string `json:"$ref"`
		} `json:"messages"`
	} `json:"operations"`
}

// NewFrames reads an AsyncAPI document.
func NewFrames(document []byte) (*Frames, error) {
	var tree any
	if err := yaml.Unmarshal(document, &tree); err != nil {
		return nil, fmt.Errorf("read AsyncAPI document: %w", err)
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("read AsyncAPI document: %w", err)
	}
	var known asyncDocument
	if err := json.Unmarshal(encoded, &known); err != nil {
		return nil, fmt.Errorf("read operations of AsyncAPI document: %w", err)
	}
	if tree, err = jsonschema.UnmarshalJSON(bytes.NewReader(encoded)); err != nil {
		return nil, fmt.Errorf("read AsyncAPI document: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(documentURL, tree); err != nil {
		return nil, fmt.Errorf("use AsyncAPI document: %w", err)
	}
	f := &Frames{schemas: map[Side]map[string]*jsonschema.Schema{}}
	for side, operation := range known.Operations {
		f.schemas[side] = map[string]*jsonschema.Schema{}
		for _, message := range operation.Messages {
			name := message.Ref[strings.LastIndex(message.Ref, "/")+1:]
			schema, err := compiler.Compile(documentURL + "#/components/messages/" + name + "/payload")
			if err != nil {
				return nil, fmt.Errorf("use message %s of AsyncAPI document: %w", name, err)
			}
			f.schemas[side][name] = schema
		}
	}
	return f, nil
}

// Check holds a frame against the document.
func (f *Frames) Check(side Side, frame []byte) error {
	var head struct {
		Op string `json:"op"`
		D  struct {
			Type string `json:"type"`
		} `json:"d"`
	}
	if err := json.Unmarshal(frame, &head); err != nil {
		return fmt.Errorf("read frame %s: %w", frame, err)
	}
	name := head.Op
	if name == "dispatch" {
		name += "." + head.D.Type
	}
	schema, known := f.schemas[side][name]
	if !known {
		return fmt.Errorf("frame %s: %w", frame, errUnknown)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(frame))
	if err != nil {
		return fmt.Errorf("read frame %s: %w", frame, err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("frame %s: %w", frame, err)
	}
	return nil
}

var errUnknown = errors.New("the document knows no such message")

// Names lists the messages of a side.
func (f *Frames) Names(side Side) []string {
	names := make([]string, 0, len(f.schemas[side]))
	for name := range f.schemas[side] {
		names = append(names, name)
	}
	return names
}
