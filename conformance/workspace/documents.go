package workspace

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/cairnsync/cairn/conformance/contract"
)

// readDocuments keeps what was made of a document by its text: reading one takes longer than most cases.
type readDocuments struct {
	mu           sync.Mutex
	knownAnswers map[string]*contract.Answers // guarded by mu
	knownFrames  map[string]*contract.Frames  // guarded by mu
}

var documents = &readDocuments{knownAnswers: map[string]*contract.Answers{}, knownFrames: map[string]*contract.Frames{}}

func (d *readDocuments) answers(text string) (*contract.Answers, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.knownAnswers[text]; known != nil {
		return known, nil
	}
	made, err := contract.NewAnswers([]byte(text))
	if err == nil {
		d.knownAnswers[text] = made
	}
	return made, err
}

func (d *readDocuments) frames(text string) (*contract.Frames, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.knownFrames[text]; known != nil {
		return known, nil
	}
	made, err := contract.NewFrames([]byte(text))
	if err == nil {
		d.knownFrames[text] = made
	}
	return made, err
}

// document loads a document that the instance publishes.
func (s *suite) document(ctx context.Context, in *instance, name string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, in.Nodes()[0]+api+"/"+name, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask for %s: %w", name, err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("load %s: %w", name, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("load %s: %s, %w", name, response.Status, err)
	}
	return string(text), nil
}
