-- +goose Up
-- How people, agents and apps prove who they are on the Workspace surface (WS-ID).

ALTER TABLE users ADD COLUMN password_hash text;

-- Who a person is at an OpenID Connect issuer. E-mail addresses join nobody to anybody (WS-ID-4).
CREATE TABLE external_identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    user_id    text NOT NULL REFERENCES users (id),
    created_at bigint NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX external_identities_user ON external_identities (user_id);

-- pending, active or revoked; NULL is a device that never signed in to the Workspace, and therefore was never approved for
-- it (WS-ID-3). A revoked device stays revoked on both surfaces.
ALTER TABLE devices ADD COLUMN state text;
-- Thumbprint of the key that the device proves itself with now.
ALTER TABLE devices ADD COLUMN dpop_jkt text;

CREATE TABLE sign_ins (
    id                 text PRIMARY KEY,
    user_id            text NOT NULL REFERENCES users (id),
    device_id          text NOT NULL REFERENCES devices (id),
    dpop_jkt           text NOT NULL,
    -- When the person last proved who it is; a refresh never moves it.
    auth_time          bigint NOT NULL,
    -- A refresh token names its family, which all tokens of a sign-in share, and holds a secret of its own, of which the hash
    -- is kept. Who names the family with another secret than the current one shows a token that was replaced.
    family             text NOT NULL UNIQUE,
    token_hash         text NOT NULL,
    token_expires_at   bigint NOT NULL,
    -- The token before the current one is good until then, while the current one is unused: its answer may have been lost.
    previous_hash      text,
    previous_until     bigint,
    created_at         bigint NOT NULL,
    revoked_at         bigint,
    revoked_reason     text
);
CREATE INDEX sign_ins_user ON sign_ins (user_id);
CREATE INDEX sign_ins_device ON sign_ins (device_id);

CREATE TABLE login_codes (
    hash       text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    used_at    bigint
);
CREATE INDEX login_codes_user ON login_codes (user_id);

-- Keys that sign access tokens. One is current; the ones before it verify what they signed until that has expired.
CREATE TABLE signing_keys (
    id          text PRIMARY KEY,
    private_key text NOT NULL,
    created_at  bigint NOT NULL,
    -- TRUE or NULL, so that there is one at most.
    is_current  boolean UNIQUE,
    rotated_at  bigint
);

-- Tokens of agents and apps.
CREATE TABLE api_tokens (
    id           text PRIMARY KEY,
    principal_id text NOT NULL REFERENCES principals (id),
    name         text NOT NULL,
    hash         text NOT NULL UNIQUE,
    hint         text NOT NULL,
    dpop_jkt     text,
    -- JSON list; NULL is everything the principal may do.
    scopes       text,
    created_by   text,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint
);
CREATE INDEX api_tokens_principal ON api_tokens (principal_id);

-- Whoever was there first owns the instance (WS-AZ-3).
INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at)
SELECT id, 'principal', id, 'instance', '', 'owner', created_at FROM users WHERE disabled_at IS NULL ORDER BY created_at, id LIMIT 1;
