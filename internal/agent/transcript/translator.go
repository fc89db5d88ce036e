package transcript

import (
	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

type translator interface {
	Update(acpsdk.SessionUpdate) []trace.Payload
	Flush() []trace.Payload
	Close(trace.ToolStatus) []trace.Payload
}

type nothing struct{}

func (nothing) Update(acpsdk.SessionUpdate) []trace.Payload            { return nil }
func (nothing) Flush() []trace.Payload                                 { return nil }
func (nothing) Close(trace.ToolStatus) []trace.Payload                 { return nil }
func newTranslator(func(string) (string, *int, bool, bool)) translator { return nothing{} }
