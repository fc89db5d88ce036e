package signin

// The actions of this package that are written down.
const (
	actionSignIn      = "sign_in:create"
	actionLogout      = "sign_in:logout"
	actionReuse       = "sign_in:reuse"
	actionRestore     = "sign_in:end_all"
	actionLoginCode   = "login_code:create"
	actionPassword    = "password:set"
	actionKeyRotate   = "signing_key:rotate"
	actionTokenCreate = "api_token:create"
	actionTokenRevoke = "api_token:revoke"
)
