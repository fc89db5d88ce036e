package signal

import (
	"slices"
	"strings"
)

// maxPayload is the longest NOTIFY payload sent, in bytes; PostgreSQL refuses 8 000 and more.
const maxPayload = 7900

// maxWord is the longest topic or id that travels by itself.
const maxWord = 128

// A payload is the sender's node followed by words, each a topic with its ids:
//
//	<node> s=<id>,<id> u=* *=*
//
// The star stands for anything. A payload that cannot be read wakes everything.
const anything = "*"

// encodePayloads writes wakes into as few payloads of at most maxPayload bytes as that takes.
func encodePayloads(node string, wakes []Wake) []string {
	slices.SortFunc(wakes, func(a, b Wake) int { return strings.Compare(string(a.Topic), string(b.Topic)) })
	var payloads []string
	var text strings.Builder
	var last string
	for _, wake := range wakes {
		topic, id := words(wake)
		if text.Len()+len(topic)+len(id)+2 > maxPayload {
			payloads = append(payloads, text.String())
			text.Reset()
		}
		switch {
		case text.Len() == 0:
			text.WriteString(node + " " + topic + "=" + id)
		case topic == last:
			text.WriteString("," + id)
		default:
			text.WriteString(" " + topic + "=" + id)
		}
		last = topic
	}
	if text.Len() > 0 {
		payloads = append(payloads, text.String())
	}
	return payloads
}

// words answers how wake is spelled; what has no safe spelling widens to anything.
func words(wake Wake) (topic, id string) {
	topic, id = string(wake.Topic), wake.ID
	switch {
	case !plain(topic):
		return anything, anything
	case !plain(id):
		return topic, anything
	default:
		return topic, id
	}
}

func plain(word string) bool {
	if word == "" || len(word) > maxWord {
		return false
	}
	for _, c := range []byte(word) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// decodePayload answers who sent a payload and what it wakes.
func decodePayload(payload string) (node string, wakes []Wake) {
	node, rest, found := strings.Cut(payload, " ")
	if !found {
		return "", []Wake{{}}
	}
	for word := range strings.SplitSeq(rest, " ") {
		topic, ids, found := strings.Cut(word, "=")
		if !found || !plain(topic) {
			return node, []Wake{{}}
		}
		for id := range strings.SplitSeq(ids, ",") {
			if !plain(id) {
				id = ""
			}
			wakes = append(wakes, Wake{Topic: Topic(topic), ID: id})
		}
	}
	return node, wakes
}
