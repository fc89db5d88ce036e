package transfer

import (
	"strings"
	"unicode/utf8"
)

// known are the emoji that people use most, by the names other chats give them. The rest keep their names.
var known = map[string]string{
	"+1": "👍", "thumbsup": "👍", "-1": "👎", "thumbsdown": "👎", "heart": "❤️", "tada": "🎉", "joy": "😂", "smile": "😄", "smiley": "😃",
	"grinning": "😀", "laughing": "😆", "slightly_smiling_face": "🙂", "wink": "😉", "blush": "😊", "heart_eyes": "😍", "thinking_face": "🤔",
	"thinking": "🤔", "sob": "😭", "cry": "😢", "open_mouth": "😮", "scream": "😱", "sweat_smile": "😅", "sunglasses": "😎", "eyes": "👀",
	"fire": "🔥", "rocket": "🚀", "100": "💯", "clap": "👏", "raised_hands": "🙌", "pray": "🙏", "muscle": "💪", "wave": "👋", "ok_hand": "👌",
	"white_check_mark": "✅", "heavy_check_mark": "✔️", "x": "❌", "warning": "⚠️", "question": "❓", "exclamation": "❗", "bulb": "💡",
	"star": "⭐", "sparkles": "✨", "rolling_on_the_floor_laughing": "🤣", "rofl": "🤣", "party_popper": "🎉", "coffee": "☕", "beers": "🍻",
	"point_up": "☝️", "point_up_2": "👆", "point_right": "👉", "see_no_evil": "🙈", "facepalm": "🤦", "face_palm": "🤦", "shrug": "🤷",
	"hourglass": "⌛", "lock": "🔒", "bug": "🐛", "wrench": "🔧", "memo": "📝", "calendar": "📆", "partying_face": "🥳", "hugging_face": "🤗",
}

// emoji answers the character of a name, or the name between colons. Tones of skin are left out.
func emoji(name string) string {
	const most = 62
	name, _, _ = strings.Cut(strings.Trim(strings.TrimSpace(name), ":"), "::")
	if character, ok := known[name]; ok {
		return character
	}
	name = strings.Join(strings.Fields(clean(name, most)), "_")
	for len(name) > most { // bytes
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	return ":" + firstOf(name, "?") + ":"
}
