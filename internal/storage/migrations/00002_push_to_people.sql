-- +goose Up

-- A person looks at the session on this connection now: nobody has to push to that person.
ALTER TABLE session_presence ADD COLUMN attention boolean NOT NULL DEFAULT FALSE;

-- What each person wants to be pushed about; who has no row wants everything.
CREATE TABLE session_notify (
    session_id text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    user_id    text NOT NULL REFERENCES users (id),
    notify     text NOT NULL,
    PRIMARY KEY (session_id, user_id)
);

-- Pushes to people of one session to one device keep a distance: none is sent before ends_at.
CREATE TABLE push_pauses (
    session_id text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    device_id  text NOT NULL,
    ends_at    bigint NOT NULL,
    PRIMARY KEY (session_id, device_id)
);

-- What became of pushes, the newest of each session. The ids are those of push_outbox.
CREATE TABLE push_outcomes (
    id         text PRIMARY KEY,
    session_id text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    type       text NOT NULL,
    device_id  text NOT NULL,
    user_id    text NOT NULL,
    control_id text,
    seq        bigint,
    state      text NOT NULL,
    reason     text,
    attempts   bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE INDEX push_outcomes_session ON push_outcomes (session_id, created_at, id);

INSERT INTO push_outcomes (id, session_id, type, device_id, user_id, control_id, state, attempts, created_at, updated_at)
SELECT o.id, o.session_id, 'dispatch', o.device_id, d.user_id, o.control_id, 'waiting', o.attempts, o.created_at, o.created_at
  FROM push_outbox o JOIN sessions s ON s.id = o.session_id JOIN devices d ON d.id = o.device_id;

-- Wakes written down with what they tell of, and sent after it: a control (SS-DSP-3), or an event of a kind that
-- people are told of. The table is made anew, because not every wake has a control any more.
CREATE TABLE push_outbox_anew (
    id         text PRIMARY KEY,
    session_id text NOT NULL,
    -- The defaults are for servers of the version before, which may still run.
    type       text NOT NULL DEFAULT 'dispatch',
    device_id  text NOT NULL,
    -- Of a dispatch.
    control_id text,
    mode       text,
    -- Of a push to people.
    user_id    text,
    seq        bigint,
    created_at bigint NOT NULL,
    attempts   bigint NOT NULL,
    -- Nobody else sends it before this moment: the sender's claim, then the back-off; of a push to people also the
    -- pause after the one before.
    not_before bigint NOT NULL,
    -- Somebody sends it now, until not_before.
    claimed    boolean NOT NULL DEFAULT FALSE
);
INSERT INTO push_outbox_anew (id, session_id, type, device_id, control_id, mode, created_at, attempts, not_before, claimed)
SELECT id, session_id, 'dispatch', device_id, control_id, mode, created_at, attempts, not_before, FALSE FROM push_outbox;
DROP TABLE push_outbox;
ALTER TABLE push_outbox_anew RENAME TO push_outbox;
CREATE INDEX push_outbox_due ON push_outbox (not_before);
CREATE INDEX push_outbox_people ON push_outbox (session_id) WHERE type <> 'dispatch';
