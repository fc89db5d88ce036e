-- +goose Up
-- Which messages the search index holds, by a number that sorts as they were made. The index itself is the
-- engine's: docs/adr/0015-search.md.
CREATE TABLE search_docs (
    doc        bigint PRIMARY KEY,
    message_id text NOT NULL UNIQUE,
    version    bigint NOT NULL,
    words      tsvector
);
CREATE INDEX search_docs_words ON search_docs USING gin (words);

-- The timeline the index belongs to, and whether every message was looked at.
CREATE TABLE search_state (
    sync_epoch text PRIMARY KEY,
    complete   boolean NOT NULL
);
