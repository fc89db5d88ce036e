package transfer

// Emoji is what a name of another chat becomes.
var Emoji = emoji
