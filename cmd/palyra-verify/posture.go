package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// postureType is the predicate type of a posture, the result of probing a host's sandbox.
const postureType = "https://palyra.dev/attestation/posture/v1"

// postureStatement is the statement of a posture, its members in their order.
type postureStatement struct {
	Type    string `json:"_type"`
	Subject []struct {
		Name   string `json:"name"`
		Digest struct {
			SHA256 string `json:"sha256"`
		} `json:"digest"`
	} `json:"subject"`
	PredicateType string  `json:"predicateType"`
	Predicate     sandbox `json:"predicate"`
}

// sandbox is the predicate.
type sandbox struct {
	StateID string            `json:"state_id"`
	At      string            `json:"at"`
	Facts   map[string]string `json:"facts"`
	Tiers   []struct {
		Tier       string            `json:"tier"`
		Available  bool              `json:"available"`
		Reason     string            `json:"reason_code"`
		Text       string            `json:"reason"`
		Remedy     string            `json:"remedy"`
		Mode       string            `json:"mode"`
		Mechanisms []string          `json:"mechanisms"`
		Limits     map[string]string `json:"limits"`
		Probes     []struct {
			Name   string `json:"name"`
			Held   bool   `json:"held"`
			Detail string `json:"detail"`
			Remedy string `json:"remedy"`
		} `json:"probes"`
		Notes []string `json:"notes"`
	} `json:"tiers"`
}

// shownPosture is a posture as commands show it: the envelope, and unsigned text beside it.
type shownPosture struct {
	Digest   string          `json:"digest"`
	Current  bool            `json:"current"`
	Envelope json.RawMessage `json:"envelope"`
	Posture  json.RawMessage `json:"posture"`
}

// isPosture reports whether the evidence claims to be a posture. The claim is checked later.
func isPosture(raw []byte) bool {
	var e struct {
		Payload  string
		Envelope struct{ Payload string }
	}
	var st struct{ PredicateType string }
	if json.Unmarshal(raw, &e) != nil {
		return false
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload + e.Envelope.Payload)
	return err == nil && json.Unmarshal(payload, &st) == nil && st.PredicateType == postureType
}

// verifyPosture checks the envelope of a posture, or the shown form that contains one. It cannot
// tell whether the posture is still that of its host.
func verifyPosture(raw []byte, daemon []ed25519.PublicKey) (p object, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("%v", r)
		}
	}()
	var text bytes.Buffer
	must(utf8.Valid(raw) && json.Compact(&text, raw) == nil, "this is not one JSON value in UTF-8")
	envelope, shown := text.Bytes(), shownPosture{}
	dec := json.NewDecoder(bytes.NewReader(envelope))
	dec.DisallowUnknownFields()
	if dec.Decode(&shown) == nil && shown.Envelope != nil {
		envelope = shown.Envelope
	} else {
		shown.Envelope = nil
	}
	var typed postureStatement
	payload, st := open(envelope, daemon), object{}
	must(bytes.Equal(reread(payload, &typed), payload) && reread(payload, &st) != nil,
		"the payload is not a statement about a posture, written the one way")
	p = st["predicate"].(object)
	digest := sum(canon([]byte("palyra/posture/v1\x00"), p))
	subject := object{"name": "palyra:posture:" + typed.Predicate.StateID, "digest": object{"sha256": strings.TrimPrefix(digest, "sha256:")}}
	must(typed.Type == "https://in-toto.io/Statement/v1" && typed.PredicateType == postureType, "the statement is of another type")
	must(typed.Predicate.StateID != "" && reflect.DeepEqual(st["subject"], []any{subject}), "the subject is not the posture and its daemon")
	if shown.Envelope != nil {
		beside := object{}
		must(reread(shown.Posture, &beside) != nil && reflect.DeepEqual(beside, p) && shown.Digest == digest,
			"what is shown beside the envelope is not what was signed")
	}
	return object{
		"kind": "posture", "state_id": p["state_id"], "at": p["at"], "digest": digest, "held": typed.Predicate.held(),
		"tiers": typed.Predicate.names(),
	}, nil
}

// held reports whether every tier could be used and nothing that was tried succeeded.
func (p sandbox) held() bool {
	for _, t := range p.Tiers {
		if !t.Available || len(t.Probes) == 0 {
			return false
		}
		for _, probe := range t.Probes {
			if !probe.Held {
				return false
			}
		}
	}
	return len(p.Tiers) > 0
}

// names lists the tiers that were probed.
func (p sandbox) names() string {
	var out []string
	for _, t := range p.Tiers {
		out = append(out, t.Tier)
	}
	return strings.Join(out, " ")
}
