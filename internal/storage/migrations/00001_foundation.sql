-- +goose Up
-- One dialect for both engines: text ids, bigint microseconds, text for opaque JSON.

CREATE TABLE users (
    id          text PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    email       text UNIQUE,
    created_at  bigint NOT NULL,
    disabled_at bigint
);

CREATE TABLE api_keys (
    id         text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    hash       text NOT NULL UNIQUE,
    hint       text NOT NULL,
    label      text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint
);
CREATE INDEX api_keys_user ON api_keys (user_id);

-- A deleted device keeps its row, so that its id stays reserved to its user (SS-DEV-1).
CREATE TABLE devices (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES users (id),
    name         text NOT NULL,
    platform     text NOT NULL,
    capabilities text NOT NULL,
    push_token   text,
    last_seen_at bigint NOT NULL,
    created_at   bigint NOT NULL,
    deleted_at   bigint
);
CREATE INDEX devices_user ON devices (user_id);

CREATE TABLE sessions (
    id               text PRIMARY KEY,
    owner_user_id    text NOT NULL REFERENCES users (id),
    session_key      text NOT NULL,
    title            text,
    e2e              boolean NOT NULL,
    archived         boolean NOT NULL,
    created_at       bigint NOT NULL,
    last_event_at    bigint NOT NULL,
    last_seq         bigint NOT NULL,
    lease_device_id  text,
    lease_expires_at bigint,
    -- Revisions make frames that are not events views of rows (SS-FRM-1).
    lease_revision   bigint NOT NULL,
    control_revision bigint NOT NULL,
    -- Grows whenever somebody may have lost access (SS-ROLE-2).
    access_version   bigint NOT NULL,
    UNIQUE (owner_user_id, session_key)
);
CREATE INDEX sessions_key ON sessions (session_key);
CREATE INDEX sessions_owner_activity ON sessions (owner_user_id, last_event_at);
CREATE INDEX sessions_lease_device ON sessions (lease_device_id) WHERE lease_device_id IS NOT NULL;

-- The log and the controls have no foreign key: it would be checked for every row appended. A deleted
-- session leaves them in the trash, which is emptied in small steps.
CREATE TABLE session_events (
    session_id       text NOT NULL,
    seq              bigint NOT NULL,
    kind             text NOT NULL,
    ts               bigint NOT NULL,
    sender_device_id text NOT NULL,
    turn_id          text,
    client_event_id  text,
    payload          text NOT NULL,
    -- What the server emits lies outside the executors' de-duplication (SS-CTL-2).
    by_server        boolean NOT NULL,
    access_version   bigint NOT NULL,
    committed_at     bigint NOT NULL,
    PRIMARY KEY (session_id, seq)
);
CREATE UNIQUE INDEX session_events_client_id ON session_events (session_id, sender_device_id, client_event_id)
    WHERE client_event_id IS NOT NULL AND NOT by_server;

CREATE TABLE session_controls (
    session_id       text NOT NULL,
    id               text NOT NULL,
    kind             text NOT NULL,
    text             text,
    turn_id          text,
    ask_id           text,
    from_device_id   text NOT NULL,
    target_device_id text,
    mode             text,
    seq              bigint NOT NULL,
    applied          boolean NOT NULL,
    applied_by       text,
    -- The session's control_revision when it was applied.
    applied_revision bigint,
    created_at       bigint NOT NULL,
    PRIMARY KEY (session_id, id)
);
CREATE INDEX session_controls_seq ON session_controls (session_id, seq);
CREATE INDEX session_controls_applied ON session_controls (session_id, applied_revision) WHERE applied;
CREATE INDEX session_controls_pending ON session_controls (session_id, seq) WHERE NOT applied;
CREATE INDEX session_controls_target ON session_controls (target_device_id, created_at) WHERE target_device_id IS NOT NULL AND NOT applied;

CREATE TABLE session_trash (
    session_id text PRIMARY KEY
);

CREATE TABLE orgs (
    id            text PRIMARY KEY,
    name          text NOT NULL,
    owner_user_id text NOT NULL REFERENCES users (id),
    created_at    bigint NOT NULL
);

CREATE TABLE org_members (
    org_id     text NOT NULL REFERENCES orgs (id) ON DELETE CASCADE,
    user_id    text NOT NULL REFERENCES users (id),
    role       text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX org_members_user ON org_members (user_id);

CREATE TABLE session_shares (
    id                 text PRIMARY KEY,
    session_id         text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    principal_type     text NOT NULL,
    principal_id       text,
    token_hash         text UNIQUE,
    role               text NOT NULL,
    expires_at         bigint,
    created_by_user_id text NOT NULL,
    created_at         bigint NOT NULL
);
CREATE INDEX session_shares_session ON session_shares (session_id, created_at);
CREATE INDEX session_shares_principal ON session_shares (principal_id) WHERE principal_id IS NOT NULL;

-- A node that runs; its presence rows count while alive_until lies ahead (SS-PRS-1).
CREATE TABLE nodes (
    id          text PRIMARY KEY,
    started_at  bigint NOT NULL,
    alive_until bigint NOT NULL
);

-- One row per open connection.
CREATE TABLE session_presence (
    connection_id text PRIMARY KEY,
    node_id       text NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    session_id    text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    device_id     text NOT NULL,
    user_id       text NOT NULL,
    role          text NOT NULL,
    driving       boolean NOT NULL,
    seen_at       bigint NOT NULL
);
CREATE INDEX session_presence_session ON session_presence (session_id);
CREATE INDEX session_presence_device ON session_presence (device_id);
CREATE INDEX session_presence_user ON session_presence (user_id);
CREATE INDEX session_presence_node ON session_presence (node_id);

-- Wakes written down with their control and sent after it (SS-DSP-3).
CREATE TABLE push_outbox (
    id         text PRIMARY KEY,
    session_id text NOT NULL,
    control_id text NOT NULL,
    device_id  text NOT NULL,
    mode       text NOT NULL,
    created_at bigint NOT NULL,
    attempts   bigint NOT NULL,
    -- Nobody else sends it before this moment: the sender's claim, then the back-off.
    not_before bigint NOT NULL
);
CREATE INDEX push_outbox_due ON push_outbox (not_before);

CREATE TABLE audit (
    id         text PRIMARY KEY,
    at         bigint NOT NULL,
    user_id    text NOT NULL,
    device_id  text,
    action     text NOT NULL,
    -- No foreign key: the row outlives the session (SS-SES-5).
    session_id text,
    owner_id   text,
    org_id     text,
    detail     text NOT NULL
);
CREATE INDEX audit_session ON audit (session_id, at) WHERE session_id IS NOT NULL;
CREATE INDEX audit_org ON audit (org_id, at) WHERE org_id IS NOT NULL;

-- The last transaction of each writer: after a lost connection it tells whether a commit happened.
CREATE TABLE lanes (
    id      text PRIMARY KEY,
    batch   text NOT NULL,
    used_at bigint NOT NULL
);
