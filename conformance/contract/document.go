package contract

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// documentURL is what a compiler calls its document.
const documentURL = "mem:///document"

// compilerFor reads a document of YAML or JSON into a struct, and answers a compiler for the schemas in it.
func compilerFor(document []byte, into any) (*jsonschema.Compiler, error) {
	var tree any
	if err := yaml.Unmarshal(document, &tree); err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("write as JSON: %w", err)
	}
	if err := json.Unmarshal(encoded, into); err != nil {
		return nil, fmt.Errorf("understand: %w", err)
	}
	// Numbers as the schemas' library reads them.
	if tree, err = jsonschema.UnmarshalJSON(bytes.NewReader(encoded)); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(documentURL, tree); err != nil {
		return nil, fmt.Errorf("take schemas: %w", err)
	}
	return compiler, nil
}
