package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Op is an op a client sent. Body is a pointer to the wire type of the op, nil for an op that is known but not
// served.
type Op struct {
	Name string
	Ref  string
	Body any
}

// Rejection is a frame that ends the connection.
type Rejection struct {
	Code   code.Close
	Reason string
}

// body decodes the `d` of an op and answers it with its ref.
type body func(d jsontext.Value) (value any, ref string, err error)

func bodyOf[T any](ref func(*T) string) body {
	return func(d jsontext.Value) (any, string, error) {
		value := new(T)
		if err := json.Unmarshal(d, value, json.RejectUnknownMembers(true)); err != nil {
			return nil, "", fmt.Errorf("read the op: %w", err)
		}
		return value, ref(value), nil
	}
}

// ops are the ops that are served.
var ops = map[string]body{
	wire.OpIdentify:    bodyOf(func(b *wire.Identify) string { return b.Ref }),
	wire.OpResume:      bodyOf(func(b *wire.Resume) string { return b.Ref }),
	wire.OpHeartbeat:   bodyOf(func(b *wire.Heartbeat) string { return b.Ref }),
	wire.OpReauth:      bodyOf(func(b *wire.Reauth) string { return b.Ref }),
	wire.OpFocus:       bodyOf(func(b *wire.Focus) string { return b.Ref }),
	wire.OpTypingStart: bodyOf(func(b *wire.Typing) string { return b.Ref }),
	wire.OpTypingStop:  bodyOf(func(b *wire.Typing) string { return b.Ref }),
}

// reserved are ops of the protocol (ES-6.2) that nothing serves: they are refused, the connection stays.
var reserved = map[string]bool{
	"ack": true, "run.update": true, "command.autocomplete_result": true, "stats.subscribe": true, "stats.unsubscribe": true,
}

// frame is wire.Frame with a body that is not decoded yet.
type frame struct {
	Op string         `json:"op"`
	D  jsontext.Value `json:"d"`
}

// Decode reads one frame. JSON that is not valid, a repeated name, text that is not UTF-8, null anywhere, an
// unknown field or a wrong type is decode_error; an op that no version of the protocol knows is unknown_op.
func Decode(text []byte) (Op, *Rejection) {
	if err := strict(text); err != nil {
		return Op{}, undecodable(err)
	}
	var f frame
	if err := json.Unmarshal(text, &f, json.RejectUnknownMembers(true)); err != nil {
		return Op{}, undecodable(err)
	}
	if f.Op == "" {
		return Op{}, undecodable(errors.New("the op is missing"))
	}
	if reserved[f.Op] {
		return Op{Name: f.Op, Ref: refOf(f.D)}, nil
	}
	decode, known := ops[f.Op]
	if !known {
		return Op{}, &Rejection{code.CloseUnknownOp, "This op is not known."}
	}
	if f.D == nil {
		f.D = jsontext.Value("{}")
	}
	value, ref, err := decode(f.D)
	if err != nil {
		return Op{}, undecodable(err)
	}
	return Op{Name: f.Op, Ref: ref, Body: value}, nil
}

func undecodable(err error) *Rejection {
	return &Rejection{code.CloseDecode, "The frame cannot be read: " + err.Error()}
}

// strict reads every token of text, for what decoding into a type does not refuse by itself.
func strict(text []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		if token.Kind() == 'n' {
			return errors.New("null is no value here")
		}
	}
}

// refOf answers the ref of an op whose body nobody decodes.
func refOf(d jsontext.Value) string {
	var body struct {
		Ref string `json:"ref"`
	}
	if json.Unmarshal(d, &body) != nil {
		return ""
	}
	return body.Ref
}
