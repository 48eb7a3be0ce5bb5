package secrets

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/pattern"
)

// The variables in which programs find the placeholders of a key of AWS, and where it is for.
const (
	EnvAWSID     = "AWS_ACCESS_KEY_ID"
	EnvAWSSecret = "AWS_SECRET_ACCESS_KEY"
	EnvAWSToken  = "AWS_SESSION_TOKEN"
)

// EnvAWSRegions are the variables that say a region.
func EnvAWSRegions() []string { return []string{"AWS_REGION", "AWS_DEFAULT_REGION"} }

// Variables are those of a run that a binding sets, or may.
func (b Binding) Variables() []string {
	switch {
	case b.Kind == SigV4:
		return append([]string{EnvAWSID, EnvAWSSecret, EnvAWSToken}, EnvAWSRegions()...)
	case b.Env != "":
		return []string{b.Env}
	}
	return nil
}

// Region is that of a binding of the kind SigV4, with the service.
func (b Binding) Region() (region, service string) {
	region, service, _ = strings.Cut(b.Place, "/")
	return region, service
}

// Clash finds two bindings that would set the same variable to different things: keys of AWS that are not the same secret.
func Clash(list []Binding) (a, b Binding, clash bool) {
	for i, b := range list {
		for _, a := range list[:i] {
			same := a.Kind == b.Kind && a.Scope == b.Scope && a.Secret == b.Secret
			sets := func(v string) bool { return slices.Contains(b.Variables(), v) }
			if (a.Kind == SigV4 || b.Kind == SigV4) && !same && slices.ContainsFunc(a.Variables(), sets) {
				return a, b, true
			}
		}
	}
	return a, b, false
}

// AWSKey is the value of a secret that is a key of AWS, or of a service that is like it.
type AWSKey struct{ ID, Secret, Token palyra.Secret }

// Destroy forgets it.
func (k AWSKey) Destroy() {
	k.ID.Destroy()
	k.Secret.Destroy()
	k.Token.Destroy()
}

var (
	validKeyID = pattern.Later(`^[A-Za-z0-9_.-]{3,128}$`)
	validKey   = pattern.Later(`^[!-~]{12,256}$`)
	validToken = pattern.Later(`^[!-~]{12,}$`)
	keyIDOfAWS = pattern.Later(`^[A-Z]{4}[A-Z0-9]{12,124}$`)
)

// ParseAWSKey reads a value: a JSON object with access_key_id, secret_access_key and perhaps session_token, as programs
// write them in one way or another, or ID:SECRET. No error has anything of it.
func ParseAWSKey(value []byte) (AWSKey, error) {
	value = bytes.TrimSpace(value)
	var id, secret, token string
	if bytes.HasPrefix(value, []byte("{")) {
		var said map[string]any
		if json.Unmarshal(value, &said) != nil {
			return AWSKey{}, notAWS("it is no JSON")
		}
		for name, v := range said {
			text, _ := v.(string)
			switch strings.ToLower(strings.ReplaceAll(name, "_", "")) {
			case "accesskeyid":
				id = text
			case "secretaccesskey":
				secret = text
			case "sessiontoken":
				token = text
			}
		}
	} else {
		id, secret, _ = strings.Cut(string(value), ":")
	}
	switch {
	case !validKeyID().MatchString(id):
		return AWSKey{}, notAWS("it has no access key id")
	case !validKey().MatchString(secret):
		return AWSKey{}, notAWS("it has no secret access key")
	case token != "" && !validToken().MatchString(token):
		return AWSKey{}, notAWS("its session token has characters that do not belong there")
	case token == "" && strings.HasPrefix(id, "ASIA") && keyIDOfAWS().MatchString(id):
		return AWSKey{}, notAWS("its id is that of a session, and the session token is missing")
	}
	return AWSKey{palyra.NewSecret([]byte(id)), palyra.NewSecret([]byte(secret)), palyra.NewSecret([]byte(token))}, nil
}

// CheckValue refuses a value that a binding of a kind cannot use.
func (k Kind) CheckValue(value []byte) error {
	if k != SigV4 {
		return nil
	}
	key, err := ParseAWSKey(value)
	key.Destroy()
	return err
}

func notAWS(why string) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the secret is no key of AWS: %s", why).
		WithRemedy(`put it as {"access_key_id": "...", "secret_access_key": "...", "session_token": "..."}, or as ID:SECRET`)
}
