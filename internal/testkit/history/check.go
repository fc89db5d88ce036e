package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// searchFor bounds the search for a linearization.
const searchFor = 30 * time.Second

// Check demands every promise of the history.
func (h *History) Check(t testing.TB) {
	t.Helper()
	for _, problem := range h.Problems() {
		t.Error(problem)
	}
}

// Problems lists the broken promises, a few of each kind.
func (h *History) Problems() []string {
	var found []string
	for _, check := range []func() []string{
		h.dense, h.events, h.invented, h.acknowledged, h.controls, h.holders, h.applied, h.views, h.lease,
	} {
		problems := check()
		found = append(found, problems[:min(len(problems), 5)]...)
	}
	return found
}

func (h *History) dense() (found []string) {
	for i, event := range h.Log {
		if event.Seq != int64(i+1) {
			found = append(found, fmt.Sprintf("SS-EVT-2: seq %d stands at place %d", event.Seq, i+1))
		}
	}
	return found
}

// events demands that an executor's event is in the log once at most, and as it was sent.
func (h *History) events() (found []string) {
	seen := map[string]int64{}
	for _, event := range h.Log {
		if !h.byExecutor(event) {
			continue
		}
		key := eventKey(event.SenderDeviceID, *event.ClientEventID)
		if first, twice := seen[key]; twice {
			found = append(found, fmt.Sprintf("SS-EVT-2: event %s is stored twice, at %d and %d", key, first, event.Seq))
		}
		seen[key] = event.Seq
		if sent, known := h.Sent[key]; known && (sent.Kind != event.Kind || !bytes.Equal(sent.Payload, event.Payload)) {
			found = append(found, fmt.Sprintf("SS-OBJ-1: event %d is %s %s, was sent as %s %s", event.Seq, event.Kind, event.Payload, sent.Kind, sent.Payload))
		}
	}
	return found
}

func (h *History) byExecutor(event wire.Event) bool {
	return event.Kind != wire.KindControl && event.Kind != wire.KindLeaseTransferred && event.ClientEventID != nil
}

// invented finds events that nobody sent.
func (h *History) invented() (found []string) {
	for _, event := range h.Log {
		if event.Kind == wire.KindControl || event.Kind == wire.KindLeaseTransferred {
			continue
		}
		if event.ClientEventID == nil {
			found = append(found, fmt.Sprintf("event %d was never sent", event.Seq))
		} else if _, sent := h.Sent[eventKey(event.SenderDeviceID, *event.ClientEventID)]; !sent {
			found = append(found, fmt.Sprintf("event %d was never sent", event.Seq))
		}
	}
	return found
}

// acknowledged demands that what was said to be stored is there, where it was said to be.
func (h *History) acknowledged() (found []string) {
	m := newModel(h.Log)
	for i := range h.Ops {
		op := &h.Ops[i]
		if !op.OK() {
			continue
		}
		switch op.Kind {
		case Append:
			if len(op.Seqs) != len(op.IDs) {
				found = append(found, fmt.Sprintf("SS-EVT-2: %d answers for %d events", len(op.Seqs), len(op.IDs)))
				continue
			}
			for j, id := range op.IDs {
				if stored := m.appended[eventKey(op.Device, id)]; stored != op.Seqs[j] {
					found = append(found, fmt.Sprintf("event %s of %s was acknowledged at %d, is at %d", id, op.Device, op.Seqs[j], stored))
				}
			}
		case Control:
			if stored := m.controls[op.ID]; stored != op.Seq {
				found = append(found, fmt.Sprintf("SS-CTL-1: control %s was acknowledged at %d, is at %d", op.ID, op.Seq, stored))
			}
		default:
		}
	}
	return found
}

// controls demands that every control has one row and one echo, which agree.
func (h *History) controls() (found []string) {
	echoes := map[string]wire.Event{}
	for _, event := range h.Log {
		if event.Kind != wire.KindControl {
			continue
		}
		var echo struct{ Control wire.Control }
		if err := json.Unmarshal(event.Payload, &echo); err != nil {
			found = append(found, fmt.Sprintf("SS-CTL-2: echo %d: %v", event.Seq, err))
			continue
		}
		id := echo.Control.ID
		if first, twice := echoes[id]; twice {
			found = append(found, fmt.Sprintf("SS-CTL-1: control %s has two echoes, at %d and %d", id, first.Seq, event.Seq))
		}
		if sent, known := h.Controls[id]; !known || sent.Kind != echo.Control.Kind || echo.Control.Seq != event.Seq {
			found = append(found, fmt.Sprintf("SS-CTL-2: the echo at %d is not what was sent: %s", event.Seq, event.Payload))
		}
		echoes[id] = event
	}
	for _, control := range h.Final {
		if echoes[control.ID].Seq != control.Seq {
			found = append(found, fmt.Sprintf("SS-CTL-2: control %s says seq %d, its echo %d", control.ID, control.Seq, echoes[control.ID].Seq))
		}
		delete(echoes, control.ID)
	}
	for id := range echoes {
		found = append(found, fmt.Sprintf("SS-CTL-2: control %s has an echo and no row, or two rows", id))
	}
	return found
}

// holders demands that only the device to which the lease went last appends (SS-LEASE-6). It can be
// told from the log alone when the lease moves by force only.
func (h *History) holders() (found []string) {
	if !h.ForceOnly {
		return nil
	}
	holder := ""
	for _, event := range h.Log {
		switch {
		case event.Kind == wire.KindLeaseTransferred:
			var said transfer
			if err := json.Unmarshal(event.Payload, &said); err != nil || !said.Forced || said.To != event.SenderDeviceID || said.From == said.To {
				found = append(found, fmt.Sprintf("SS-LEASE-3: event %d says %s", event.Seq, event.Payload))
			}
			if holder != "" && said.From != holder {
				found = append(found, fmt.Sprintf("SS-LEASE-3: event %d takes the lease from %s, %s held it", event.Seq, said.From, holder))
			}
			holder = said.To
		case event.Kind == wire.KindControl:
		case holder == "":
			holder = event.SenderDeviceID
		case event.SenderDeviceID != holder:
			found = append(found, fmt.Sprintf("SS-LEASE-6: event %d is of %s, the lease was %s's", event.Seq, event.SenderDeviceID, holder))
		}
	}
	return found
}

// applied demands that a control is applied if somebody was told so, and only if somebody asked.
func (h *History) applied() (found []string) {
	told, asked := map[string]bool{}, map[string]bool{}
	for _, op := range h.Ops {
		if op.Kind == Applied {
			told[op.ID] = told[op.ID] || op.OK()
			asked[op.ID] = true
		}
	}
	final := map[string]bool{}
	for _, control := range h.Final {
		final[control.ID] = control.Applied
		if told[control.ID] && !control.Applied || control.Applied && !asked[control.ID] {
			found = append(found, fmt.Sprintf("SS-CTL-5: control %s: applied is %t, acknowledged %t, asked %t",
				control.ID, control.Applied, told[control.ID], asked[control.ID]))
		}
	}
	for _, view := range h.Views {
		for id := range view.Applied {
			if !final[id] {
				found = append(found, fmt.Sprintf("%s was shown control %s as applied, it is not", view.Name, id))
			}
		}
	}
	return found
}

// views demands that every viewer has the server's log.
func (h *History) views() (found []string) {
	for _, view := range h.Views {
		for _, trouble := range view.Trouble {
			found = append(found, "SS-STR-2: "+view.Name+": "+trouble)
		}
		if len(view.Events) != len(h.Log) {
			found = append(found, fmt.Sprintf("SS-STR-2: %s has %d events of %d", view.Name, len(view.Events), len(h.Log)))
			continue
		}
		for i, event := range view.Events {
			if !sameEvent(event, h.Log[i]) {
				found = append(found, fmt.Sprintf("SS-STR-2: %s has %+v for %+v", view.Name, event, h.Log[i]))
				break
			}
		}
	}
	return found
}

// sameEvent compares bytes of payloads too.
func sameEvent(a, b wire.Event) bool {
	left, leftErr := json.Marshal(a)
	right, rightErr := json.Marshal(b)
	return leftErr == nil && rightErr == nil && bytes.Equal(left, right) && bytes.Equal(a.Payload, b.Payload)
}

// lease demands that the session is linearizable.
func (h *History) lease() []string {
	switch result := newModel(h.Log).linearizable(h.Ops, searchFor); result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []string{fmt.Sprintf("no linearization was found in %v", searchFor)}
	default:
		return []string{"SS-LEASE-2: the session is not linearizable"}
	}
}
