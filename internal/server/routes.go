package server

import (
	"encoding/json"
	"net"
	"net/http"

	apiworkspace "github.com/cairnsync/cairn/internal/api/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/storage"
)

// routes is everything the main address answers.
func routes(db storage.DB, sessions, workspace http.Handler, m *metrics, c config.Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sessions)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, r *http.Request) { ready(w, r, db) })
	if c.Metrics.Listen == "" {
		mux.Handle("GET /metrics", loopbackOnly(m.handler()))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if apiworkspace.Owns(r.URL.Path) { // it says itself what is no path, also where a mux would redirect
			workspace.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// ready reports whether requests can be served: the database answers with the schema this program
// knows. The schema was checked when it was opened.
func ready(w http.ResponseWriter, r *http.Request, db storage.DB) {
	if err := storage.Ready(r.Context(), db); err != nil {
		answer(w, http.StatusServiceUnavailable, map[string]string{
			"status": "unavailable", "reason": "the database does not answer or has another schema",
		})
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ready", "engine": storage.EngineName(db)})
}

// loopbackOnly hides the metrics from everybody but this machine. A reverse proxy on the same
// machine is loopback too, so forwarded requests are refused.
func loopbackOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		ip := net.ParseIP(host)
		forwarded := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
		if err != nil || ip == nil || !ip.IsLoopback() || forwarded {
			answer(w, http.StatusNotFound, map[string]string{"status": "not found"})
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, body map[string]string) {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings always encode
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(encoded, '\n')) // the client has gone; there is nobody to tell
}
