package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// link is one scripted connection of a stream, over either transport.
type link struct {
	number int // from 1
	after  int64
	query  string
	send   func(name, fields string) // fields: JSON without braces
	socket *websocket.Conn           // nil over SSE
	ctx    context.Context           //nolint:containedctx // the connection's
	stay   func()                    // until the client leaves
	close  func(code code.Close)
}

// scripted serves streams that behave as play says; status refuses a connection when it is not 0.
func scripted(t *testing.T, status func(number int) int, play func(link)) *sessions.Client {
	t.Helper()
	var count atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		number := int(count.Add(1))
		if status != nil && status(number) != 0 {
			refuse(w, status(number), map[int]string{401: "invalid_api_key", 403: "not_a_member", 404: "not_found"}[status(number)], "no")
			return
		}
		after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		at := link{number: number, after: after, query: r.URL.RawQuery}
		if strings.HasSuffix(r.URL.Path, "/ws") {
			playSocket(w, r, at, play)
			return
		}
		playStream(w, r, at, play)
	}
	server := httptest.NewServer(http.HandlerFunc(handler))
	client := newClient(t, sessions.Config{BaseURL: server.URL})
	t.Cleanup(func() { client.Close(); server.CloseClientConnections(); server.Close() })
	return client
}

func playStream(w http.ResponseWriter, r *http.Request, at link, play func(link)) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	at.ctx = r.Context()
	at.send = func(name, fields string) {
		_, _ = io.WriteString(w, sse(name, `{"v":1,`+fields+`}`))
		w.(http.Flusher).Flush()
	}
	at.stay = func() { <-r.Context().Done() }
	at.close = func(c code.Close) { at.send("closed", fmt.Sprintf(`"code":%d`, c)) }
	play(at)
}

func playSocket(w http.ResponseWriter, r *http.Request, at link, play func(link)) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	at.socket, at.ctx = conn, r.Context()
	at.send = func(name, fields string) {
		_ = conn.Write(at.ctx, websocket.MessageText, []byte(`{"v":1,"t":"`+name+`",`+fields+`}`))
	}
	at.stay = func() { _, _, _ = conn.Read(at.ctx) }
	at.close = func(c code.Close) { _ = conn.Close(websocket.StatusCode(c), "bye") }
	play(at)
}

func event(seq int64) string {
	return fmt.Sprintf(`"seq":%d,"kind":"k%d","ts":1,"sender_device_id":"d","payload":{"n":%d},"new_field":[1]`, seq, seq, seq)
}

func overBoth(t *testing.T, name string, body func(t *testing.T, transport sessions.Transport)) {
	for label, transport := range map[string]sessions.Transport{"SSE": sessions.SSE, "WebSocket": sessions.WebSocket} {
		t.Run(name+" over "+label, func(t *testing.T) {
			t.Parallel()
			body(t, transport)
		})
	}
}

// watch takes frames until last was the seq of an event, and answers them.
func watch(t *testing.T, viewer *sessions.Viewer, last int64) []sessions.Frame {
	var frames []sessions.Frame
	for frame, err := range viewer.Frames(t.Context()) {
		require.NoError(t, err)
		frames = append(frames, frame)
		if event, ok := frame.(sessions.EventFrame); ok && event.Seq == last {
			break
		}
	}
	return frames
}

func seqs(frames []sessions.Frame) []int64 {
	var found []int64
	for _, frame := range frames {
		switch frame := frame.(type) {
		case sessions.EventFrame:
			found = append(found, frame.Seq)
		case sessions.ResetFrame:
			found = append(found, 0)
		}
	}
	return found
}

func TestViewer(t *testing.T) {
	t.Parallel()
	overBoth(t, "SS-CON-1 unknown frames, kinds and fields are ignored, every known frame is told", func(t *testing.T, transport sessions.Transport) {
		client := scripted(t, nil, func(at link) {
			at.send("event", event(1))
			at.send("hologram", `"x":1`)
			at.send("lease", `"holder_device_id":null,"expires_at":null`)
			at.send("presence", `"device_id":"d","user_id":"u","role":"editor","online":false,"mood":"x"`)
			at.send("control", `"id":"c","kind":"dance","seq":1,"applied":true`)
			at.send("event", event(2))
			at.stay()
		})
		frames := watch(t, client.View("s", sessions.ViewOptions{Transport: transport}), 2)
		require.Len(t, frames, 6)
		require.Equal(t, sessions.Connected, frames[0].(sessions.ConnectionFrame).State)
		require.Equal(t, "k1", frames[1].(sessions.EventFrame).Kind)
		require.Nil(t, frames[2].(sessions.LeaseFrame).HolderDeviceID, "no executor")
		require.False(t, *frames[3].(sessions.PresenceFrame).Online)
		require.True(t, frames[4].(sessions.ControlFrame).Applied)
		require.Equal(t, wire.ControlKind("dance"), frames[4].(sessions.ControlFrame).Kind)
		require.JSONEq(t, `{"n":2}`, string(frames[5].(sessions.EventFrame).Payload))
	})
	overBoth(t, "SS-STR-4 a lost stream is resumed with the highest seq, known events are dropped", func(t *testing.T, transport sessions.Transport) {
		client := scripted(t, nil, func(at link) {
			switch at.number {
			case 1:
				at.send("event", event(at.after+1))
				at.send("event", event(at.after+2))
			default:
				for seq := at.after - 1; seq <= at.after+3; seq++ { // repeats two
					at.send("event", event(seq))
				}
				at.stay()
			}
		})
		viewer := client.View("s", sessions.ViewOptions{After: 10, Transport: transport})
		frames := watch(t, viewer, 14)
		require.Equal(t, []int64{11, 12, 13, 14}, seqs(frames))
		require.EqualValues(t, 2, viewer.Stats().Connects)
		require.EqualValues(t, 2, viewer.Stats().Duplicates)
		lost := frames[3].(sessions.ConnectionFrame)
		require.Equal(t, sessions.Lost, lost.State)
		require.Error(t, lost.Err)
		require.GreaterOrEqual(t, lost.RetryIn, 250*time.Millisecond)
		require.EqualValues(t, 13, viewer.LastSeq(), "the loop was left with 14 in hand")
	})
	overBoth(t, "SS-STR-2 a hole is never handed out: the stream is opened again from the last event", func(t *testing.T, transport sessions.Transport) {
		client := scripted(t, nil, func(at link) {
			at.send("event", event(at.after+1))
			if at.number == 1 {
				at.send("event", event(at.after+3))
				at.stay()
			}
			at.send("event", event(at.after+2))
			at.stay()
		})
		viewer := client.View("s", sessions.ViewOptions{Transport: transport})
		require.Equal(t, []int64{1, 2, 3}, seqs(watch(t, viewer, 3)))
		require.EqualValues(t, 1, viewer.Stats().Holes)
	})
	overBoth(t, "SS-STR-2 reset drops the copy and starts at 0", func(t *testing.T, transport sessions.Transport) {
		client := scripted(t, nil, func(at link) {
			if at.after == 50 {
				at.send("reset", `"last_seq":2`)
				at.stay()
			}
			at.send("event", event(at.after+1))
			at.send("event", event(at.after+2))
			at.stay()
		})
		viewer := client.View("s", sessions.ViewOptions{After: 50, Transport: transport})
		frames := watch(t, viewer, 2)
		require.Equal(t, []int64{0, 1, 2}, seqs(frames))
		require.EqualValues(t, 2, frames[1].(sessions.ResetFrame).LastSeq)
		require.EqualValues(t, 1, viewer.Stats().Resets)
	})
	overBoth(t, "an event of 11 MiB passes", func(t *testing.T, transport sessions.Transport) {
		big := strings.Repeat("x", 11<<20)
		client := scripted(t, nil, func(at link) {
			at.send("event", `"seq":1,"kind":"big","payload":{"x":"`+big+`"}`)
			at.stay()
		})
		frames := watch(t, client.View("s", sessions.ViewOptions{Transport: transport}), 1)
		require.Len(t, frames[1].(sessions.EventFrame).Payload, len(big)+len(`{"x":""}`))
	})
	t.Run("SS-CON-1 it may be run again and goes on", func(t *testing.T) {
		t.Parallel()
		client := scripted(t, nil, func(at link) {
			at.send("event", event(at.after+1))
			at.send("event", event(at.after+2))
			at.stay()
		})
		viewer := client.View("s", sessions.ViewOptions{})
		require.Equal(t, []int64{1, 2}, seqs(watch(t, viewer, 2)))
		require.Equal(t, []int64{2, 3}, seqs(watch(t, viewer, 3)), "what was in hand when the loop was left comes again")
	})
}

func TestViewerEnds(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404} {
		overBoth(t, fmt.Sprintf("SS-ROLE-2 %d ends it", status), func(t *testing.T, transport sessions.Transport) {
			client := scripted(t, func(int) int { return status }, nil)
			err := client.View("s", sessions.ViewOptions{Transport: transport}).Run(t.Context(), func(sessions.Frame) error { return nil })
			require.Equal(t, status, sessions.AsAPIError(err).Status)
		})
	}
	for _, last := range []code.Close{code.CloseBadRequest, code.CloseBadKey, code.CloseNoAccess, code.CloseNotFound} {
		overBoth(t, fmt.Sprintf("SS-ROLE-2 close %d ends it", last), func(t *testing.T, transport sessions.Transport) {
			client := scripted(t, nil, func(at link) { at.close(last) })
			err := client.View("s", sessions.ViewOptions{Transport: transport}).Run(t.Context(), func(sessions.Frame) error { return nil })
			var closed *sessions.ClosedError
			require.ErrorAs(t, err, &closed)
			require.Equal(t, last, closed.Code)
		})
	}
	overBoth(t, "SS-STR-8 close 1001 and 503 mean connecting again", func(t *testing.T, transport sessions.Transport) {
		client := scripted(t, func(number int) int { return map[int]int{2: 503}[number] }, func(at link) {
			if at.number == 1 {
				at.close(code.CloseGoingAway)
				return
			}
			at.send("event", event(1))
			at.stay()
		})
		require.Equal(t, []int64{1}, seqs(watch(t, client.View("s", sessions.ViewOptions{Transport: transport}), 1)))
	})
	overBoth(t, "the consumer's error is answered as it is", func(t *testing.T, transport sessions.Transport) {
		client := scripted(t, nil, func(at link) { at.send("event", event(1)); at.stay() })
		viewer := client.View("s", sessions.ViewOptions{Transport: transport})
		err := viewer.Run(t.Context(), func(frame sessions.Frame) error {
			require.ErrorIs(t, viewer.Run(t.Context(), nil), sessions.ErrRunning)
			if _, ok := frame.(sessions.EventFrame); ok {
				return errTaken
			}
			return nil
		})
		require.Equal(t, errTaken, err)
		require.Zero(t, viewer.LastSeq())
	})
	overBoth(t, "the end of the context ends it", func(t *testing.T, transport sessions.Transport) {
		client := scripted(t, nil, func(at link) { at.stay() })
		ctx, cancel := context.WithCancel(t.Context())
		err := client.View("s", sessions.ViewOptions{Transport: transport}).Run(ctx, func(sessions.Frame) error { cancel(); return nil })
		require.ErrorIs(t, err, context.Canceled)
	})
}

// streaming answers a client of one in-memory SSE handler, and counts its connections.
func streaming(t *testing.T, play func(number int, w http.ResponseWriter, r *http.Request)) *sessions.Client {
	var count atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		play(int(count.Add(1)), w, r)
	}
	return newClient(t, sessions.Config{BaseURL: "http://fake.test", HTTP: &http.Client{Transport: memory{http.HandlerFunc(handler)}}})
}

func TestViewerTime(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-4 45 s without a byte is a lost stream, pings are not silence", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			client := streaming(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				for range 4 {
					_, _ = io.WriteString(w, ": ping 1\n\n")
					<-time.After(40 * time.Second)
				}
				<-r.Context().Done()
			})
			err := client.View("s", sessions.ViewOptions{}).Run(t.Context(), func(frame sessions.Frame) error {
				if lost, ok := frame.(sessions.ConnectionFrame); ok && lost.State == sessions.Lost {
					return errTaken
				}
				return nil
			})
			require.ErrorIs(t, err, errTaken)
			require.Equal(t, 3*40*time.Second+45*time.Second, time.Since(start))
		})
	})
	t.Run("a slow consumer is no silence", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			client := streaming(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, sse("event", `{`+event(1)+`}`)+sse("event", `{`+event(2)+`}`))
				<-r.Context().Done()
			})
			viewer := client.View("s", sessions.ViewOptions{})
			err := viewer.Run(t.Context(), func(frame sessions.Frame) error {
				<-time.After(10 * time.Minute)
				if event, ok := frame.(sessions.EventFrame); ok && event.Seq == 2 {
					return errTaken
				}
				return nil
			})
			require.ErrorIs(t, err, errTaken)
			require.EqualValues(t, 1, viewer.Stats().Connects)
		})
	})
	t.Run("waits grow to 15 s, honour Retry-After, and start anew after a healthy time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			client := streaming(t, func(number int, w http.ResponseWriter, _ *http.Request) {
				switch number {
				case 9:
					<-time.After(6 * time.Second)
				case 11:
					w.Header().Set("Retry-After", "120")
					w.WriteHeader(http.StatusServiceUnavailable)
				default:
					w.WriteHeader(http.StatusBadGateway)
				}
			})
			var waits []time.Duration
			err := client.View("s", sessions.ViewOptions{}).Run(t.Context(), func(frame sessions.Frame) error {
				if lost := frame.(sessions.ConnectionFrame); lost.State == sessions.Lost {
					if waits = append(waits, lost.RetryIn); len(waits) == 12 {
						return errTaken
					}
				}
				return nil
			})
			require.ErrorIs(t, err, errTaken)
			for _, wait := range waits {
				require.GreaterOrEqual(t, wait, 250*time.Millisecond)
			}
			require.LessOrEqual(t, waits[0], 500*time.Millisecond)
			require.GreaterOrEqual(t, waits[7], 7500*time.Millisecond)
			require.LessOrEqual(t, waits[7], 15*time.Second)
			require.LessOrEqual(t, waits[8], 500*time.Millisecond, "after the healthy connection")
			require.GreaterOrEqual(t, waits[10], 120*time.Second)
			require.LessOrEqual(t, waits[10], 132*time.Second)
		})
	})
	for name, frame := range map[string]string{
		"a hole that stays":              sse("event", `{`+event(9)+`}`),
		"an event that cannot be read":   sse("event", `{"seq":"one"}`),
		"a frame larger than the limit":  sse("event", `{"seq":1,"kind":"k","payload":{"x":"`+strings.Repeat("x", 2000)+`"}}`),
		"a control that cannot be read":  sse("control", `[]`),
		"a presence that cannot be read": sse("presence", `oops`),
	} {
		t.Run("SS-STR-2 "+name+" ends it after a few attempts", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := streaming(t, func(_ int, w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, frame)
					<-r.Context().Done()
				})
				viewer := client.View("s", sessions.ViewOptions{MaxFrameBytes: 1000})
				err := viewer.Run(t.Context(), func(sessions.Frame) error { return nil })
				require.ErrorIs(t, err, sessions.ErrBrokenStream)
				require.EqualValues(t, 5, viewer.Stats().Connects)
				require.Zero(t, viewer.LastSeq())
			})
		})
	}
}

func TestViewerUp(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-5 controls and events go up with a ref and are answered", func(t *testing.T) {
		t.Parallel()
		client := scripted(t, nil, func(at link) {
			for {
				_, data, err := at.socket.Read(at.ctx)
				if err != nil {
					return
				}
				ref := member(data, "ref")
				switch {
				case member(data, "id") == `"bad"`:
					at.send("error", `"ref":`+ref+`,"error":{"code":"lease_held","message":"held","details":{"holder_device_id":"h"}}`)
				case member(data, "t") == `"events"`:
					at.send("ack", `"ref":`+ref+`,"last_seq":1,"accepted":1,"events":[{"client_event_id":"e","seq":1}]`)
				default:
					at.send("ack", `"ref":`+ref+`,"accepted":true,"seq":7,"duplicate":false`)
				}
			}
		})
		viewer := client.View("s", sessions.ViewOptions{Transport: sessions.WebSocket})
		connected := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- viewer.Run(ctx, func(sessions.Frame) error { close(connected); return nil })
		}()
		<-connected
		require.Eventually(t, func() bool { // the consumer has given the first frame back
			receipt, err := viewer.SendControl(t.Context(), wire.IncomingControl{Kind: wire.ControlPause})
			return err == nil && receipt.Seq == 7
		}, 10*time.Second, time.Millisecond)
		_, err := viewer.SendControl(t.Context(), wire.IncomingControl{ID: "bad", Kind: wire.ControlPause})
		require.True(t, sessions.IsCode(err, code.LeaseHeld))
		require.Equal(t, "h", sessions.AsAPIError(err).HolderDeviceID())
		require.Equal(t, 409, sessions.AsAPIError(err).Status)
		receipt, err := viewer.AppendEvents(t.Context(), sessions.Append{Events: []wire.IncomingEvent{{Kind: "k", ClientEventID: new("e")}}})
		require.NoError(t, err)
		require.Equal(t, 1, receipt.Accepted)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Run("a control sent with a frame in hand goes over HTTP", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/ws") {
				return false
			}
			playSocket(w, r, link{}, func(at link) { at.stay() })
			return true
		}
		viewer := f.over(t).View(sessionID, sessions.ViewOptions{Transport: sessions.WebSocket})
		err := viewer.Run(t.Context(), func(sessions.Frame) error {
			_, err := viewer.SendControl(t.Context(), wire.IncomingControl{Kind: wire.ControlPause})
			return errors.Join(err, errTaken)
		})
		require.ErrorIs(t, err, errTaken)
		require.Len(t, f.requested("POST"), 1)
	})
	t.Run("SS-STR-5 driving is said, and said again on a new connection", func(t *testing.T) {
		t.Parallel()
		said := make(chan string, 10)
		client := scripted(t, nil, func(at link) {
			_, data, err := at.socket.Read(at.ctx)
			if err == nil {
				said <- fmt.Sprintf("%d %s %s", at.number, member(data, "t"), member(data, "driving"))
			}
		})
		viewer := client.View("s", sessions.ViewOptions{Transport: sessions.WebSocket})
		viewer.SetDriving(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- viewer.Run(ctx, func(sessions.Frame) error { return nil }) }()
		require.Equal(t, `1 "presence" true`, <-said)
		require.Equal(t, `2 "presence" true`, <-said)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestViewerAttention(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-5 attention is said beside driving, when it changes and on a new connection", func(t *testing.T) {
		t.Parallel()
		said := make(chan string, 10)
		client := scripted(t, nil, func(at link) {
			for range 2 {
				if _, data, err := at.socket.Read(at.ctx); err == nil {
					said <- fmt.Sprintf("%d %s %s", at.number, member(data, "driving"), member(data, "attention"))
				}
			}
		})
		viewer := client.View("s", sessions.ViewOptions{Transport: sessions.WebSocket})
		viewer.SetAttention(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- viewer.Run(ctx, func(sessions.Frame) error { return nil }) }()
		require.Equal(t, "1 false true", <-said)
		viewer.SetAttention(true) // nothing changed
		viewer.SetDriving(true)
		require.Equal(t, "1 true true", <-said)
		require.Equal(t, "2 true true", <-said)
		viewer.SetAttention(false)
		require.Equal(t, "2 true false", <-said)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Run("SS-STR-1 attention over SSE is asked for at the next connection", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 10)
		client := scripted(t, nil, func(at link) { asked <- at.query })
		viewer := client.View("s", sessions.ViewOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- viewer.Run(ctx, func(frame sessions.Frame) error {
				if at, is := frame.(sessions.ConnectionFrame); is && at.State == sessions.Connected {
					viewer.SetAttention(viewer.Stats().Connects == 1)
				}
				return nil
			})
		}()
		require.Equal(t, "after=0", <-asked)
		require.Equal(t, "after=0&attention=1", <-asked)
		require.Equal(t, "after=0", <-asked)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestViewerProperty(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-2 whatever a connection does, every event is handed out once and in order", func(t *testing.T) {
		t.Parallel()
		kinds := []string{"next", "next", "next", "again", "skip", "noise", "cut", "refuse"}
		rapid.Check(t, func(rt *rapid.T) {
			total := rapid.Int64Range(1, 40).Draw(rt, "events")
			tricks := rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 60).Draw(rt, "tricks")
			var want, got []int64
			for seq := range total {
				want = append(want, seq+1)
			}
			var failure error
			synctest.Test(t, func(t *testing.T) { got, failure = viewThrough(t, total, tricks) })
			require.NoError(rt, failure)
			require.Equal(rt, want, got)
		})
	})
}

// viewThrough answers the seqs that a viewer hands out while its connections play tricks.
func viewThrough(t *testing.T, total int64, tricks []string) (got []int64, failure error) {
	t.Helper()
	var mu sync.Mutex // guards tricks: a connection may still end while the next one begins
	client := streaming(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		tricks = misbehave(w, after, total, tricks)
	})
	for frame, err := range client.View("s", sessions.ViewOptions{}).Frames(t.Context()) {
		if err != nil {
			return got, err
		}
		if event, ok := frame.(sessions.EventFrame); ok {
			if got = append(got, event.Seq); event.Seq == total {
				break
			}
		}
	}
	return got, nil
}

// misbehave plays tricks on one connection until one ends it, and answers what is left. Without tricks, and
// after three in a row that hold the log up, it behaves.
func misbehave(w http.ResponseWriter, after, total int64, tricks []string) []string {
	next, held := after+1, 0
	for next <= total {
		trick := "next"
		if len(tricks) > 0 && held < 3 {
			trick, tricks = tricks[0], tricks[1:]
		}
		switch held++; trick {
		case "next":
			_, _ = io.WriteString(w, sse("event", `{`+event(next)+`}`))
			next, held = next+1, 0
		case "again":
			_, _ = io.WriteString(w, sse("event", `{`+event(max(1, next-2))+`}`))
			next = max(next, max(1, next-2)+1)
		case "skip":
			_, _ = io.WriteString(w, sse("event", `{`+event(next)+`}`)+sse("event", `{`+event(next+2)+`}`))
			return tricks
		case "noise":
			_, _ = io.WriteString(w, ": ping\n\n"+sse("hologram", `{}`)+sse("lease", `{"holder_device_id":null}`))
		case "cut":
			_, _ = io.WriteString(w, "event: event\ndata: {"+event(next)+"}\n")
			return tricks
		case "refuse":
			w.WriteHeader(http.StatusBadGateway)
			return tricks
		}
	}
	return tricks
}
