// Package fakefcm is a push service for tests: a real HTTP server that speaks the wire format of the
// token endpoint of a service account and of FCM HTTP v1 messages:send.
//
// Contract. It checks what the real one checks: the signature, audience and scope of the assertion,
// the access token, the project, the shape of a message. It records every message it is asked to
// send, whatever it answers.
//
// Blocking and concurrency. A Server is safe for concurrent use. A request under Hang is held until
// the client goes away or the server is closed; every other request is answered at once.
package fakefcm

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// ProjectID is the project every Server serves.
const ProjectID = "cairn-test"

const (
	clientEmail = "push@cairn-test.example"
	keyID       = "test-key"
	scope       = "https://www.googleapis.com/auth/firebase.messaging"
)

// Answer is how a Server treats messages.
type Answer int

// The answers.
const (
	OK           Answer = iota // 200
	Unregistered               // 404 with the error code UNREGISTERED
	AuthFailed                 // 401
	Broken                     // 500
	Hang                       // no answer
	TokenRefused               // the token endpoint answers 400; messages get 200
)

// Message is a message as it was received.
type Message struct {
	Token   string            `json:"token"`
	Data    map[string]string `json:"data"`
	Android struct {
		Priority string `json:"priority"`
	} `json:"android"`
	APNS struct {
		Headers map[string]string          `json:"headers"`
		Payload map[string]json.RawMessage `json:"payload"`
	} `json:"apns"`
	Notification json.RawMessage `json:"notification"` // never of cairn: its messages show nothing
}

// Server is a running push service.
type Server struct {
	url    string
	key    *rsa.PrivateKey
	http   http.Server
	closed chan struct{}
	served chan error

	mu       sync.Mutex // guards what follows
	answer   Answer
	byToken  map[string]Answer
	messages []Message
	access   []string      // access tokens that were issued
	changed  chan struct{} // closed and replaced at every message
}

// Start serves on a free port of the loopback interface.
func Start() (*Server, error) { return StartAt("127.0.0.1:0") }

// StartAt serves on address, host:port.
func StartAt(address string) (*Server, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make service account key: %w", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for pushes: %w", err)
	}
	s := &Server{
		url: "http://" + listener.Addr().String(), key: key,
		closed: make(chan struct{}), served: make(chan error, 1),
		byToken: make(map[string]Answer), changed: make(chan struct{}),
	}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /token", s.issue)
	routes.HandleFunc("POST /v1/projects/"+ProjectID+"/messages:send", s.send)
	s.http = http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	go func() { s.served <- s.http.Serve(listener) }()
	return s, nil
}

// Close ends the server and every request that hangs.
func (s *Server) Close() error {
	close(s.closed)
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// URL is the base URL, for the endpoint of the configuration.
func (s *Server) URL() string { return s.url }

// Credentials is the JSON key file of a service account of this server.
func (s *Server) Credentials() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		panic(fmt.Sprintf("encode service account key: %v", err)) // an RSA key always encodes
	}
	file, err := json.Marshal(map[string]string{
		"type":           "service_account",
		"project_id":     ProjectID,
		"private_key_id": keyID,
		"private_key":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"client_email":   clientEmail,
		"token_uri":      s.url + "/token",
	})
	if err != nil {
		panic(fmt.Sprintf("encode key file: %v", err)) // strings always encode
	}
	return file
}

// Answer sets how every message is treated from now on, except for tokens with an answer of their own.
func (s *Server) Answer(answer Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// AnswerFor sets how messages to one device token are treated from now on.
func (s *Server) AnswerFor(token string, answer Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byToken[token] = answer
}

// ForgetAccess makes every access token that was issued so far invalid.
func (s *Server) ForgetAccess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.access = nil
}

// Messages answers everything that was received so far, in order.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// Wait answers the messages once there are at least n, or ctx's error.
func (s *Server) Wait(ctx context.Context, n int) ([]Message, error) {
	for {
		s.mu.Lock()
		messages, changed := slices.Clone(s.messages), s.changed
		s.mu.Unlock()
		if len(messages) >= n {
			return messages, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return messages, fmt.Errorf("wait for %d pushes, have %d: %w", n, len(messages), ctx.Err())
		}
	}
}
