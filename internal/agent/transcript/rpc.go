package transcript

import "encoding/json"

// rpc is a JSON-RPC message of either direction.
type rpc struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (m rpc) is() bool { return m.Version == "2.0" || m.Method != "" && m.Params != nil }

// wrapped are the fields in which recordings put a message, and its time.
type wrapped struct {
	Message   json.RawMessage `json:"message"`
	Msg       json.RawMessage `json:"msg"`
	Payload   json.RawMessage `json:"payload"`
	Data      json.RawMessage `json:"data"`
	Frame     json.RawMessage `json:"frame"`
	Raw       json.RawMessage `json:"raw"`
	TS        json.RawMessage `json:"ts"`
	Timestamp json.RawMessage `json:"timestamp"`
	Time      json.RawMessage `json:"time"`
	At        json.RawMessage `json:"at"`
}

// unwrap finds the message of a line, and when it was sent.
func unwrap(line []byte) (message rpc, stamp json.RawMessage, found bool) {
	var around wrapped
	if json.Unmarshal(line, &around) != nil {
		return rpc{}, nil, false
	}
	for _, known := range []json.RawMessage{around.TS, around.Timestamp, around.Time, around.At} {
		if _, ok := moment(known); ok {
			stamp = known
			break
		}
	}
	if json.Unmarshal(line, &message) == nil && message.is() {
		return message, stamp, true
	}
	for _, inside := range []json.RawMessage{around.Message, around.Msg, around.Payload, around.Data, around.Frame, around.Raw} {
		if said := stringOf(inside); said != "" {
			inside = json.RawMessage(said)
		}
		message = rpc{}
		if json.Unmarshal(inside, &message) == nil && message.is() {
			return message, stamp, true
		}
	}
	return rpc{}, stamp, false
}
