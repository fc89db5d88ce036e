package workspace

import "time"

// APIToken is a token of an agent or app, as owners see it: never the token itself.
type APIToken struct {
	ID          string     `json:"id" format:"uuid"`
	PrincipalID string     `json:"principal_id" format:"uuid"`
	Name        string     `json:"name"`
	Hint        string     `json:"hint" doc:"last characters of the token"`
	DPoPJKT     string     `json:"dpop_jkt,omitempty" doc:"thumbprint (RFC 7638) of the key the token is bound to"`
	Scopes      []string   `json:"scopes,omitempty" doc:"missing: everything the principal may do"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
}

// APITokenMade answers NewToken. Token is shown here and never again: a repeat with the same Idempotency-Key
// answers without it.
type APITokenMade struct {
	APIToken

	Token string `json:"token,omitempty"`
}

// PatchPrincipal changes how a principal is called.
type PatchPrincipal struct {
	Handle      *string `json:"handle,omitempty" pattern:"^[a-z0-9][a-z0-9._-]{0,30}[a-z0-9]$"`
	DisplayName *string `json:"display_name,omitempty" minLength:"1" maxLength:"200"`
}
