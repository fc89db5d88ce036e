package workspace

// MentionsIn is what a text mentions, for tests.
var MentionsIn = mentionsIn
