package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	apiworkspace "github.com/cairnsync/cairn/internal/api/workspace"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// recording notes requests and answers none.
type recording struct{ asked []*http.Request }

func (r *recording) RoundTrip(request *http.Request) (*http.Response, error) {
	r.asked = append(r.asked, request)
	return nil, errors.New("nobody is there")
}

// Every method of the SDK that makes a request makes one that the server has a route for.
func TestWorkspaceClientRoutes(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	for _, route := range apiworkspace.Routes() {
		mux.HandleFunc(route.Pattern(), http.NotFound)
	}
	wire := &recording{}
	client, err := workspace.New(workspace.Config{
		BaseURL: "http://x.test", APIToken: "token", HTTP: &http.Client{Transport: wire}, Attempts: 1,
	})
	require.NoError(t, err)
	_, err = workspace.Audit[json.RawMessage](t.Context(), client, nil, workspace.Paging{})
	require.Error(t, err)
	// These ask for something else first, or are about tokens.
	skipped := []string{"Do", "Load", "LoadOlder", "SignIn", "StepUp", "Refresh", "Forget", "SignedIn", "Logout"}
	value := reflect.ValueOf(client)
	for i := range value.NumMethod() {
		name, method := value.Type().Method(i).Name, value.Method(i)
		if method.Type().NumIn() == 0 || method.Type().In(0) != reflect.TypeFor[context.Context]() || strings.Contains(strings.Join(skipped, " ")+" ", name+" ") {
			continue
		}
		before := len(wire.asked)
		method.Call(arguments(t, method.Type()))
		require.Greater(t, len(wire.asked), before, "%s makes no request", name)
	}
	require.Greater(t, len(wire.asked), 60)
	for _, request := range wire.asked {
		_, pattern := mux.Handler(request)
		require.NotEmpty(t, pattern, "%s %s is no route", request.Method, request.URL.Path)
	}
}

// arguments makes some for a method.
func arguments(t *testing.T, method reflect.Type) []reflect.Value {
	t.Helper()
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < method.NumIn(); i++ {
		kind := method.In(i)
		switch {
		case kind == reflect.TypeFor[io.ReaderAt]():
			args = append(args, reflect.ValueOf(strings.NewReader("x")))
		case kind == reflect.TypeFor[json.RawMessage]():
			args = append(args, reflect.ValueOf(json.RawMessage("{}")))
		case kind == reflect.TypeFor[wirews.Kind]():
			args = append(args, reflect.ValueOf(wirews.KindAgent))
		case kind.Kind() == reflect.String:
			args = append(args, reflect.ValueOf("x").Convert(kind))
		case kind.Kind() == reflect.Int64:
			args = append(args, reflect.ValueOf(int64(1)))
		default:
			args = append(args, reflect.Zero(kind))
		}
	}
	return args
}
