package outbound

import (
	"encoding/json"
	"fmt"
)

// The parts of a message (FCM HTTP v1, projects.messages).
type (
	envelope struct {
		Message message `json:"message"`
	}
	message struct {
		Token   string            `json:"token"`
		Data    map[string]string `json:"data"`
		Android android           `json:"android"`
		APNS    apns              `json:"apns"`
	}
	android struct {
		Priority string `json:"priority"`
	}
	apns struct {
		Headers map[string]string `json:"headers"`
		Payload apnsPayload       `json:"payload"`
	}
	apnsPayload struct {
		APS map[string]int `json:"aps"`
	}
)

// encodeMessage writes a message with data only. Apple takes what shows nothing as a background
// push, whose highest priority is 5.
func encodeMessage(token string, data map[string]string) ([]byte, error) {
	encoded, err := json.Marshal(envelope{message{
		Token: token, Data: data,
		Android: android{Priority: "HIGH"},
		APNS: apns{
			Headers: map[string]string{"apns-priority": "5", "apns-push-type": "background"},
			Payload: apnsPayload{APS: map[string]int{"content-available": 1}},
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return encoded, nil
}
