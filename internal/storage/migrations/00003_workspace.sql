-- +goose Up
-- The Workspace surface. Numbers that order everything are counters: rows locked as the last step of the
-- transaction that takes them (ES-3.2, ES-3.3).

CREATE TABLE sequence_counters (
    name  text PRIMARY KEY,
    value bigint NOT NULL
);
INSERT INTO sequence_counters (name, value) VALUES ('event_seq', 0), ('audit_seq', 0), ('permission_version', 1);

-- One row, made when the database is opened first.
CREATE TABLE instance (
    id               text PRIMARY KEY,
    only_row         boolean NOT NULL DEFAULT TRUE UNIQUE,
    name             text NOT NULL,
    sync_epoch       text NOT NULL,
    -- Events below it were removed (ES-7.3).
    min_retained_seq bigint NOT NULL DEFAULT 1,
    created_at       bigint NOT NULL
);

-- The audit rows of both surfaces are one chain: each hash covers the row and the hash before it. Rows from before
-- the chain have no number.
ALTER TABLE audit ADD COLUMN seq bigint;
ALTER TABLE audit ADD COLUMN hash text;
ALTER TABLE audit ADD COLUMN target_kind text;
ALTER TABLE audit ADD COLUMN target_id text;
CREATE UNIQUE INDEX audit_seq ON audit (seq) WHERE seq IS NOT NULL;

-- Everybody who acts. A person has the id of its row in users.
CREATE TABLE principals (
    id           text PRIMARY KEY,
    kind         text NOT NULL,
    handle       text NOT NULL UNIQUE,
    display_name text NOT NULL,
    status       text NOT NULL,
    -- Made by an import for an author nobody knows: (import, source id). Such a principal never acts.
    source       text,
    source_id    text,
    import_id    text,
    created_at   bigint NOT NULL,
    version      bigint NOT NULL DEFAULT 1,
    UNIQUE (import_id, source_id)
);
-- There are few of them, and every connection asks for them.
CREATE INDEX principals_agents ON principals (kind, handle) WHERE kind = 'agent';
INSERT INTO principals (id, kind, handle, display_name, status, created_at)
SELECT id, 'user', 'u-' || id, name, CASE WHEN disabled_at IS NULL THEN 'active' ELSE 'disabled' END, created_at FROM users;

CREATE TABLE principal_groups (
    id         text PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    version    bigint NOT NULL DEFAULT 1
);
CREATE TABLE group_members (
    group_id     text NOT NULL REFERENCES principal_groups (id),
    principal_id text NOT NULL REFERENCES principals (id),
    expires_at   bigint,
    -- access.expiring was written for this end.
    noticed_at   bigint,
    PRIMARY KEY (group_id, principal_id)
);
CREATE INDEX group_members_principal ON group_members (principal_id);
CREATE INDEX group_members_expiry ON group_members (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE grants (
    id           text PRIMARY KEY,
    subject_kind text NOT NULL,
    subject_id   text NOT NULL,
    target_kind  text NOT NULL,
    -- Empty for the instance.
    target_id    text NOT NULL,
    level        text,
    -- JSON list, for hosts.
    capabilities text,
    created_by   text,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    -- access.expiring was written for this end.
    noticed_at   bigint
);
CREATE INDEX grants_subject ON grants (subject_id) WHERE revoked_at IS NULL;
CREATE INDEX grants_target ON grants (target_kind, target_id) WHERE revoked_at IS NULL;
CREATE INDEX grants_expiry ON grants (expires_at) WHERE revoked_at IS NULL AND expires_at IS NOT NULL;

-- Durable events in commit order (ES-2, ES-3). No foreign keys: the log outlives what it tells of.
CREATE TABLE event_log (
    seq                   bigint PRIMARY KEY,
    id                    text NOT NULL,
    type                  text NOT NULL,
    schema_version        bigint NOT NULL,
    occurred_at           bigint NOT NULL,
    actor_id              text,
    actor_kind            text,
    space_id              text,
    channel_id            text,
    thread_id             text,
    resource_kind         text NOT NULL,
    resource_id           text NOT NULL,
    resource_version      bigint,
    audience_principal_id text,
    payload               text NOT NULL,
    redacted              boolean NOT NULL,
    truncated             boolean NOT NULL,
    correlation_id        text,
    trace_context         text,
    client_msg_id         text,
    permission_version    bigint NOT NULL
);
-- What a deletion redacts.
CREATE INDEX event_log_content ON event_log (resource_id) WHERE resource_kind IN ('message', 'file');

-- How far a consumer inside the server has read the log (ES-7.6).
CREATE TABLE event_consumer_cursors (
    consumer text PRIMARY KEY,
    last_seq bigint NOT NULL
);

-- Where threads went: a catch-up that begins before a move still goes by the current channel.
CREATE TABLE thread_moves (
    seq       bigint PRIMARY KEY,
    thread_id text NOT NULL
);

CREATE TABLE spaces (
    id                text PRIMARY KEY,
    name              text NOT NULL,
    archived_at       bigint,
    operator_agent_id text REFERENCES principals (id),
    backend_policy    text,
    created_at        bigint NOT NULL,
    version           bigint NOT NULL DEFAULT 1
);

-- Whose permissions follow from being an operator.
CREATE INDEX spaces_operator ON spaces (operator_agent_id) WHERE operator_agent_id IS NOT NULL;

CREATE TABLE channels (
    id               text PRIMARY KEY,
    space_id         text NOT NULL REFERENCES spaces (id),
    kind             text NOT NULL,
    name             text NOT NULL,
    topic            text,
    read_only        boolean NOT NULL DEFAULT FALSE,
    archived_at      bigint,
    main_thread_id   text,
    -- JSON of prompt, agents and backend policy; only for who manages the channel.
    settings         text NOT NULL DEFAULT '{}',
    settings_version bigint NOT NULL DEFAULT 1,
    import_id        text,
    source_id        text,
    created_at       bigint NOT NULL,
    version          bigint NOT NULL DEFAULT 1
);
CREATE INDEX channels_space ON channels (space_id);
CREATE UNIQUE INDEX channels_source ON channels (import_id, source_id) WHERE import_id IS NOT NULL;

CREATE TABLE threads (
    id               text PRIMARY KEY,
    channel_id       text NOT NULL,
    kind             text NOT NULL,
    title            text,
    state            text NOT NULL,
    last_message_seq bigint NOT NULL DEFAULT 0,
    message_count    bigint NOT NULL DEFAULT 0,
    last_activity_at bigint NOT NULL,
    unread_floor_seq bigint NOT NULL DEFAULT 0,
    created_by       text,
    import_id        text,
    source_id        text,
    created_at       bigint NOT NULL,
    version          bigint NOT NULL DEFAULT 1
);
CREATE INDEX threads_channel ON threads (channel_id, last_activity_at);
CREATE UNIQUE INDEX threads_source ON threads (import_id, source_id) WHERE import_id IS NOT NULL;

-- No foreign keys on the hot path: the write has read the thread under its lock.
CREATE TABLE messages (
    id                    text PRIMARY KEY,
    thread_id             text NOT NULL,
    thread_seq            bigint NOT NULL,
    author_id             text NOT NULL,
    author_kind           text NOT NULL,
    client_msg_id         text,
    client_payload_sha256 text,
    origin                text NOT NULL,
    kind                  text NOT NULL,
    content_md            text NOT NULL,
    reply_to_id           text,
    -- JSON lists; NULL is the empty one.
    file_ids              text,
    mention_ids           text,
    components            text,
    trigger_state         text,
    trigger_state_reason  text,
    import_id             text,
    source_id             text,
    created_at            bigint NOT NULL,
    edited_at             bigint,
    deleted_at            bigint,
    version               bigint NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX messages_thread ON messages (thread_id, thread_seq);
-- Permanently unique (ES-5.1).
CREATE UNIQUE INDEX messages_client_id ON messages (author_id, client_msg_id) WHERE client_msg_id IS NOT NULL;
-- The source id first: a batch asks for hundreds of one import, which has nearly all the rows.
CREATE UNIQUE INDEX messages_source ON messages (source_id, import_id) WHERE import_id IS NOT NULL;
-- What is not unread among the messages above a read state: one's own, and the deleted ones.
CREATE INDEX messages_author ON messages (author_id, thread_id, thread_seq) WHERE origin <> 'import';
CREATE INDEX messages_deleted ON messages (thread_id, thread_seq) WHERE deleted_at IS NOT NULL;

-- The wordings a message had before its current one.
CREATE TABLE message_revisions (
    message_id text NOT NULL,
    version    bigint NOT NULL,
    content_md text NOT NULL,
    at         bigint NOT NULL,
    PRIMARY KEY (message_id, version)
);

CREATE TABLE message_mentions (
    principal_id text NOT NULL,
    thread_id    text NOT NULL,
    thread_seq   bigint NOT NULL,
    message_id   text NOT NULL,
    PRIMARY KEY (principal_id, thread_id, thread_seq)
);
CREATE INDEX message_mentions_message ON message_mentions (message_id);

CREATE TABLE reactions (
    message_id   text NOT NULL,
    emoji        text NOT NULL,
    principal_id text NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (message_id, emoji, principal_id)
);

CREATE TABLE pins (
    thread_id  text NOT NULL,
    message_id text NOT NULL,
    pinned_by  text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (thread_id, message_id)
);
CREATE INDEX pins_message ON pins (message_id);

-- Personal data (ES-14). Rows stay when access ends and count again when it returns.
CREATE TABLE read_states (
    principal_id         text NOT NULL,
    thread_id            text NOT NULL,
    last_read_seq        bigint NOT NULL,
    updated_by_device_id text,
    updated_at           bigint NOT NULL,
    version              bigint NOT NULL,
    PRIMARY KEY (principal_id, thread_id)
);
-- A deleted draft keeps its row, so that its versions go on.
CREATE TABLE drafts (
    principal_id         text NOT NULL,
    thread_id            text NOT NULL,
    content_md           text NOT NULL,
    file_ids             text,
    deleted              boolean NOT NULL,
    updated_by_device_id text,
    updated_at           bigint NOT NULL,
    version              bigint NOT NULL,
    PRIMARY KEY (principal_id, thread_id)
);
CREATE TABLE settings (
    principal_id         text NOT NULL,
    key                  text NOT NULL,
    value                text,
    updated_by_device_id text,
    version              bigint NOT NULL,
    PRIMARY KEY (principal_id, key)
);
CREATE TABLE sidebars (
    principal_id         text NOT NULL,
    space_id             text NOT NULL,
    state                text NOT NULL,
    updated_by_device_id text,
    version              bigint NOT NULL,
    PRIMARY KEY (principal_id, space_id)
);
CREATE TABLE notification_prefs (
    principal_id         text NOT NULL,
    kind                 text NOT NULL,
    target_id            text NOT NULL,
    level                text NOT NULL,
    muted_until          bigint,
    updated_by_device_id text,
    version              bigint NOT NULL,
    PRIMARY KEY (principal_id, kind, target_id)
);
CREATE TABLE quiet_hours (
    principal_id         text PRIMARY KEY,
    timezone             text NOT NULL,
    days                 text NOT NULL,
    from_time            text NOT NULL,
    to_time              text NOT NULL,
    updated_by_device_id text,
    version              bigint NOT NULL
);

CREATE TABLE files (
    id                text PRIMARY KEY,
    uploaded_by       text NOT NULL,
    purpose           text NOT NULL,
    upload_state      text NOT NULL,
    scan_status       text NOT NULL,
    transcript_status text NOT NULL,
    original_name     text NOT NULL,
    size_bytes        bigint NOT NULL,
    mime_type         text NOT NULL,
    sha256            text,
    thumbnails        text,
    -- Not to be scanned before: it is being scanned, or the scanner was away.
    scan_after        bigint NOT NULL DEFAULT 0,
    scan_attempts     bigint NOT NULL DEFAULT 0,
    created_at        bigint NOT NULL,
    deleted_at        bigint,
    version           bigint NOT NULL DEFAULT 1
);
CREATE INDEX files_scan ON files (scan_after) WHERE scan_status = 'pending' AND upload_state = 'complete' AND deleted_at IS NULL;
CREATE INDEX files_age ON files (created_at) WHERE deleted_at IS NULL;
CREATE INDEX files_sha ON files (sha256) WHERE sha256 IS NOT NULL AND deleted_at IS NULL;
-- Contents, once each. The name is in the folder of files and never used again, so that bytes can be removed
-- after the row without asking who writes the same content meanwhile.
CREATE TABLE file_blobs (
    sha256     text PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    size_bytes bigint NOT NULL,
    -- Nothing uses it any more, as far as somebody saw.
    unused_at  bigint,
    created_at bigint NOT NULL
);
CREATE INDEX file_blobs_unused ON file_blobs (unused_at) WHERE unused_at IS NOT NULL;
-- Which messages hold a file: who may read one of them may read the file.
CREATE TABLE message_files (
    file_id    text NOT NULL,
    message_id text NOT NULL,
    PRIMARY KEY (file_id, message_id)
);
CREATE INDEX message_files_message ON message_files (message_id);

CREATE TABLE imports (
    id         text PRIMARY KEY,
    space_id   text NOT NULL,
    source     text NOT NULL,
    state      text NOT NULL,
    threads    bigint NOT NULL DEFAULT 0,
    messages   bigint NOT NULL DEFAULT 0,
    created_by text NOT NULL,
    created_at bigint NOT NULL,
    version    bigint NOT NULL DEFAULT 1,
    UNIQUE (source, space_id)
);

-- Who the authors of an import are here: people found by their e-mail, or principals made for them. Another
-- import decides anew, also of the same source: who applies it may see other people.
CREATE TABLE import_authors (
    import_id    text NOT NULL,
    source_id    text NOT NULL,
    principal_id text NOT NULL REFERENCES principals (id),
    PRIMARY KEY (import_id, source_id)
);

-- Writes that were answered (ES-5.2). The answer holds no secret and no content that can be deleted.
CREATE TABLE idempotency_keys (
    principal_id text NOT NULL,
    method       text NOT NULL,
    path         text NOT NULL,
    key          text NOT NULL,
    request_hash text NOT NULL,
    body         text NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (principal_id, key, method, path)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- The gateway session of each principal and device: who resumes takes over what it says (ES-6.3.7). It survives its node.
CREATE TABLE gateway_sessions (
    id              text PRIMARY KEY,
    principal_id    text NOT NULL,
    device_id       text NOT NULL,
    sign_in_id      text,
    -- JSON: focus and subscriptions.
    state           text NOT NULL,
    connection_id   text NOT NULL,
    created_at      bigint NOT NULL,
    -- While it is connected its node moves this on; resumable until some time after it.
    seen_at         bigint NOT NULL,
    UNIQUE (principal_id, device_id)
);
CREATE INDEX gateway_sessions_seen ON gateway_sessions (seen_at);
