package workspace

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// excerptBytes is how much of a long content an event carries.
const excerptBytes = 4096

// A payload of small parts is known to fit without encoding it: a byte of text becomes at most six in JSON.
const (
	mostPerByte  = 6
	smallMessage = 4096 // everything of a message but its content, lists and title
	smallEntry   = 512  // a mention or a reaction
)

// messagePayload answers a payload of message.* that fits into an event, and whether it was reduced: its
// content to the beginning, then without attachments, reactions and components, then without mentions.
func (s *Service) messagePayload(event wire.MessageEvent) (wire.MessageEvent, bool, error) {
	m := &event.Message
	if len(m.Attachments)+len(m.Components) == 0 &&
		smallMessage+len(m.ContentMD)*mostPerByte+(len(m.MentionIDs)+len(m.Reactions))*smallEntry <= s.maxPayload {
		return event, false, nil
	}
	steps := []func(){
		func() {},
		func() { m.ContentMD = excerpt(m.ContentMD, excerptBytes) },
		func() {
			m.Attachments, m.Reactions, m.Components = []wire.File{}, []wire.Reaction{}, []json.RawMessage{}
		},
		func() { m.MentionIDs = []string{} },
		func() { m.ContentMD = "" },
	}
	for i, reduce := range steps {
		reduce()
		encoded, err := json.Marshal(event)
		if err != nil {
			return event, false, fmt.Errorf("encode payload: %w", err)
		}
		if len(encoded) <= s.maxPayload {
			return event, i > 0, nil
		}
	}
	return event, true, nil // the log refuses what is still too large
}

// excerpt cuts a text to at most some bytes, between two characters.
func excerpt(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
