package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"
)

// maxGreeting is how many lines that are no messages an agent may write before it answers initialize.
const maxGreeting = 50

// message is one line of the protocol, in the shape that the SDK reads it.
type message struct {
	ID     *json.RawMessage     `json:"id"`
	Method string               `json:"method"`
	Params json.RawMessage      `json:"params"`
	Result json.RawMessage      `json:"result"`
	Error  *acpsdk.RequestError `json:"error"`
}

func (m *message) isResponse() bool {
	return m.Method == "" && m.ID != nil && (m.Result != nil || m.Error != nil)
}

func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// listen reads the agent's lines until they end or one is no protocol.
func (a *Agent) listen() {
	defer a.process.stdout.close()
	from := newLines(touching{a, a.process.stdout})
	greeting := 0
	for !a.isStopping() {
		line, err := from.next()
		switch {
		case errors.Is(err, errLong):
			a.breach(err.Error(), line)
			return
		case err != nil:
			a.last(line)
			a.closed()
			return
		}
		line = clean(line)
		m, why := parse(line)
		if why != "" && greeting < maxGreeting && !a.isReady() {
			greeting++
			a.process.note(append(line, '\n'))
			continue
		}
		if why == "" {
			why = a.take(m, line)
		}
		if why != "" {
			a.breach(why, line)
			return
		}
	}
	// What it still says while it is stopped is for nobody, but it must not wait for a reader.
	_, _ = io.Copy(io.Discard, a.process.stdout)
}

// clean makes a line valid UTF-8, because parts of it are passed on as they are.
func clean(line []byte) []byte {
	if utf8.Valid(line) {
		return line
	}
	return bytes.ToValidUTF8(line, []byte("\uFFFD"))
}

// parse reads a line, or says why it is no message.
func parse(line []byte) (m *message, why string) {
	if line[0] != '{' {
		return nil, "line is no JSON-RPC message"
	}
	m = &message{}
	if err := json.Unmarshal(line, m); err != nil {
		return nil, "line is no JSON-RPC message: " + err.Error()
	}
	if m.Method == "" && !m.isResponse() {
		return nil, "object is neither request nor response"
	}
	return m, ""
}

// last looks at a line without its newline: a process that was killed leaves half of one, which says nothing.
func (a *Agent) last(line []byte) {
	if len(line) == 0 {
		return
	}
	line = clean(line)
	if m, why := parse(line); why != "" || a.take(m, line) != "" {
		a.log.Debug("agent ended in the middle of a line", "line", excerpt(line))
	}
}

// take gives a message to whom it is for, or says what is wrong with it.
func (a *Agent) take(m *message, line []byte) (why string) {
	switch {
	case m.isRequest():
		if a.gate.enter(a.told, len(m.Params)) == nil && !a.forward(line) {
			a.gate.served(len(m.Params))
			a.gate.answered()
		}
	case m.isResponse():
		settled := a.awaited(*m.ID)
		if a.forward(line) && settled != nil {
			<-settled // so that what follows finds the answer in force, and the end does not overtake it
		}
	case m.Method == acpsdk.ClientMethodSessionUpdate:
		return a.update(m.Params)
	case m.Method == "$/cancel_request":
		a.forward(line)
	default:
		a.log.Debug("agent sent a notification that is not known", "method", m.Method)
	}
	return ""
}

// forward hands a line to the SDK and says whether it was read.
func (a *Agent) forward(line []byte) bool {
	_, err := a.toSDK.Write(append(line, '\n'))
	return err == nil
}

// breach ends an agent that does not speak the protocol.
func (a *Agent) breach(reason string, line []byte) {
	a.mu.Lock()
	a.garbage = &GarbageError{Reason: reason, Line: excerpt(line)}
	a.mu.Unlock()
	a.endLife()
	a.process.kill()
}

// closed sees the end of a pipe: a process that goes on without it is of no use and is ended, by Stop when that
// is at it.
func (a *Agent) closed() {
	if !a.process.endsWithin(a.o.StopGrace) && !a.isStopping() {
		a.process.kill()
	}
}

// touching notes when the agent wrote.
type touching struct {
	agent *Agent
	from  io.Reader
}

// Read is one read.
func (t touching) Read(buffer []byte) (int, error) {
	n, err := t.from.Read(buffer)
	if n > 0 {
		t.agent.touch()
	}
	return n, err //nolint:wrapcheck // io.EOF is answered as it is
}

func (a *Agent) isReady() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready
}
