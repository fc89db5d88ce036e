package contract

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
	var known asyncDocument
	compiler, err := compilerFor(document, &known)
	if err != nil {
		return nil, fmt.Errorf("read AsyncAPI document: %w", err)
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
	if err := validate(schema, frame); err != nil {
		return fmt.Errorf("frame %s: %w", frame, err)
	}
	return nil
}

// Names lists the messages of a side.
func (f *Frames) Names(side Side) []string {
	names := make([]string, 0, len(f.schemas[side]))
	for name := range f.schemas[side] {
		names = append(names, name)
	}
	return names
}
