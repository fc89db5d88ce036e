// Package oidc asks an OpenID Connect issuer who somebody is: the authorization code flow with PKCE (RFC
// 7636), of which the client runs the part in the browser (WS-ID-4).
//
// Contract. A Person is who the issuer says, proved by its signature, for our client id. Only issuer and
// subject identify; everything else is decoration. What the issuer refuses is invalid_credentials; when it
// cannot be reached, unavailable.
//
// Blocking and concurrency. An Issuer is safe for concurrent use. Exchange waits for the issuer, at most
// the timeout; its configuration is read on first use and again after failures, by one caller at a time.
package oidc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

const (
	timeout = 15 * time.Second
	// maxAnswer is how much of an answer of the issuer is read, in bytes.
	maxAnswer = 1 << 20
)

// Person is who signed in at the issuer.
type Person struct {
	Issuer  string
	Subject string
	// Name and Username are what the issuer calls the person, "" when it does not say.
	Name     string
	Username string
	// Email is set when the issuer says that it is verified.
	Email string
	// AuthTime is when the person proved who it is there; the zero value when the issuer does not say.
	AuthTime time.Time
}

// Issuer is the configured issuer. Make it with New.
type Issuer struct {
	config config.OIDC
	env    *env.Env
	client *http.Client

	mu       sync.Mutex // guards provider, and lets one caller at a time read the configuration
	provider *oidc.Provider
}

// New makes an Issuer; nothing is asked yet.
func New(c config.OIDC, e *env.Env) *Issuer {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// People sign in rarely: a connection is not worth keeping.
		DisableKeepAlives:      true,
		TLSHandshakeTimeout:    timeout,
		ResponseHeaderTimeout:  timeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &Issuer{config: c, env: e, client: &http.Client{Timeout: timeout, Transport: bounded{transport}}}
}

// Exchange answers who a code of the issuer belongs to. verifier and redirectURI are those with which the
// client got the code.
func (i *Issuer) Exchange(ctx context.Context, authorizationCode, verifier, redirectURI string) (Person, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.client), timeout)
	defer cancel()
	provider, err := i.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	flow := oauth2.Config{
		ClientID: i.config.ClientID, ClientSecret: i.config.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: redirectURI,
	}
	tokens, err := flow.Exchange(ctx, authorizationCode, oauth2.VerifierOption(verifier))
	if err != nil {
		return Person{}, refusal(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	verified, err := provider.Verifier(&oidc.Config{ClientID: i.config.ClientID, Now: i.env.Now}).Verify(ctx, raw)
	if err != nil {
		return Person{}, fault.New(code.InvalidCredentials, "The issuer's answer is no good.").WithCause(err)
	}
	person, err := personOf(verified)
	if err == nil && person.Name == "" && person.Username == "" {
		i.describe(ctx, provider, tokens, &person)
	}
	return person, err
}

// describe adds what only the userinfo endpoint tells: many issuers keep names out of the ID token. A name is
// decoration, so a failure costs no more than the name.
func (i *Issuer) describe(ctx context.Context, provider *oidc.Provider, tokens *oauth2.Token, person *Person) {
	if provider.UserInfoEndpoint() == "" {
		return
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil || info.Subject != person.Subject {
		return
	}
	var said profile
	if err := info.Claims(&said); err == nil {
		said.onto(person)
	}
}

// refusal tells an issuer that says no from one that does not answer.
func refusal(err error) error {
	if answered, found := errors.AsType[*oauth2.RetrieveError](err); found && answered.Response != nil && answered.Response.StatusCode < 500 {
		return fault.New(code.InvalidCredentials, "The issuer does not accept this code.").WithCause(err)
	}
	return unreachable(err)
}

func unreachable(err error) error {
	return fault.New(code.Unavailable, "The issuer does not answer. Try again later.").WithCause(err)
}

// discover reads the issuer's configuration, once.
func (i *Issuer) discover(ctx context.Context) (*oidc.Provider, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.provider != nil {
		return i.provider, nil
	}
	provider, err := oidc.NewProvider(ctx, i.config.Issuer)
	if err != nil {
		return nil, unreachable(err)
	}
	i.provider = provider
	return provider, nil
}

// profile is how an issuer describes somebody (OpenID Connect Core section 5.1).
type profile struct {
	Name     string `json:"name"`
	Username string `json:"preferred_username"`
	Email    string `json:"email"`
	Verified any    `json:"email_verified"` // some issuers write it as a string
}

func (p profile) onto(person *Person) {
	person.Name, person.Username = p.Name, p.Username
	if p.Verified == true || p.Verified == "true" {
		person.Email = p.Email
	}
}

func personOf(verified *oidc.IDToken) (Person, error) {
	var said struct {
		profile

		AuthTime int64 `json:"auth_time"`
	}
	if err := verified.Claims(&said); err != nil || verified.Subject == "" {
		return Person{}, fault.New(code.InvalidCredentials, "The issuer's answer is no good.").WithCause(err)
	}
	person := Person{Issuer: verified.Issuer, Subject: verified.Subject}
	said.onto(&person)
	if said.AuthTime > 0 {
		person.AuthTime = time.Unix(said.AuthTime, 0).UTC()
	}
	return person, nil
}

// bounded cuts answers off that are longer than maxAnswer.
type bounded struct{ inner http.RoundTripper }

// RoundTrip carries out a request.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.inner.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // a RoundTripper hands errors on
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxAnswer), response.Body}
	return response, nil
}
