package config

import (
	"strings"
	"testing"
)

func TestPushSettings(t *testing.T) {
	for s, want := range map[string]bool{
		"off": true, "mailto:me@example.com": true, "https://example.com/contact": true,
		"": false, "on": false, "me@example.com": false, "mailto:": false, "mailto:@": false, "mailto:me": false, "http://example.com": false,
		"https://": false, "javascript:x@y": false, "mailto:" + strings.Repeat("x", maxName) + "@y": false,
	} {
		if err := pushContact(s); (err == nil) != want {
			t.Errorf("contact %q: %v", s, err)
		}
	}
	for s, want := range map[string]bool{
		"push.example": true, "*.push.example": true, "push.example:8443": true, "*.push.example:8443": true, "127.0.0.1:443": true,
		"": false, "*": false, "*.": false, "**.example": false, "example": false, "localhost": false, "a.localhost": false, "*.127.0.0.1": false,
		"https://push.example": false, "push.example/x": false, "push.example:x": false, "Push.example": false, "a..example": false,
	} {
		if err := pushService(s); (err == nil) != want {
			t.Errorf("service %q: %v", s, err)
		}
	}
	for _, s := range Default().Console.PushServices {
		if err := pushService(s); err != nil {
			t.Error(err)
		}
	}
}
