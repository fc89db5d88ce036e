package fakefcm

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	grantType   = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523
	tokenTerm   = time.Hour
	maxMessage  = 64 << 10
	maxRecorded = 100_000
)

// issue answers an access token for an assertion that the service account signed.
func (s *Server) issue(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refuse := s.answer == TokenRefused
	s.mu.Unlock()
	r.Body = http.MaxBytesReader(w, r.Body, maxMessage)
	if err := s.verify(r); err != nil || refuse {
		reply(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	access := "ya29." + rand.Text()
	s.mu.Lock()
	s.access = append(s.access, access)
	s.mu.Unlock()
	reply(w, http.StatusOK, map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(tokenTerm.Seconds()),
	})
}

// verify checks the assertion as RFC 7523 section 3 asks.
func (s *Server) verify(r *http.Request) error {
	if r.FormValue("grant_type") != grantType {
		return errors.New("not a JWT bearer grant")
	}
	signed, signature, found := cutLast(r.FormValue("assertion"), ".")
	if !found {
		return errors.New("not a JWT")
	}
	mac, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return fmt.Errorf("read signature: %w", err)
	}
	digest := sha256.Sum256([]byte(signed))
	if err := rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, digest[:], mac); err != nil {
		return fmt.Errorf("verify signature: %w", err)
	}
	return s.verifyClaims(signed)
}

func (s *Server) verifyClaims(signed string) error {
	_, encoded, _ := strings.Cut(signed, ".")
	body, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("read claims: %w", err)
	}
	var claims struct {
		Issuer   string `json:"iss"`
		Audience string `json:"aud"`
		Scope    string `json:"scope"`
		Expires  int64  `json:"exp"`
	}
	if err := json.Unmarshal(body, &claims); err != nil {
		return fmt.Errorf("read claims: %w", err)
	}
	if claims.Issuer != clientEmail || claims.Audience != s.url+"/token" || claims.Scope != scope ||
		claims.Expires < time.Now().Unix() {
		return errors.New("the claims are not those of the service account")
	}
	return nil
}

// send takes one message and treats it as it was told to.
func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Message Message `json:"message"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMessage)).Decode(&body); err != nil || body.Message.Token == "" {
		fail(w, http.StatusBadRequest, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
		return
	}
	switch s.record(body.Message, r) {
	case Unregistered:
		fail(w, http.StatusNotFound, "NOT_FOUND", "UNREGISTERED")
	case AuthFailed:
		fail(w, http.StatusUnauthorized, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR")
	case Broken:
		fail(w, http.StatusInternalServerError, "INTERNAL", "INTERNAL")
	case Hang:
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
	default:
		reply(w, http.StatusOK, map[string]string{"name": "projects/" + ProjectID + "/messages/" + rand.Text()})
	}
}

// record remembers a message and answers how to treat it.
func (s *Server) record(message Message, r *http.Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.messages) < maxRecorded { // past it a test has long seen what it wanted
		s.messages = append(s.messages, message)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !slices.Contains(s.access, access) {
		return AuthFailed
	}
	if answer, own := s.byToken[message.Token]; own {
		return answer
	}
	return s.answer
}

func fail(w http.ResponseWriter, status int, name, errorCode string) {
	reply(w, status, map[string]any{"error": map[string]any{
		"code": status, "status": name, "message": "refused by the test",
		"details": []map[string]string{{
			"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": errorCode,
		}},
	}})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that went away is the client's affair
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
