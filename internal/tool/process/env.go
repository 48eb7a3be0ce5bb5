package process

import (
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/cell"
	programs "palyra/internal/program"
	"palyra/internal/show"
)

const (
	maxEnv     = 128
	maxEnvName = 256
)

// environment checks the variables of a call and of its profile and returns them in order. PATH is among them
// only when it differs from the usual one, which every run gets like HOME, TMPDIR and LANG.
func (a arguments) environment(lookup []string, room Fittings) ([]palyra.EnvVar, error) {
	if len(a.Env) > maxEnv {
		return nil, malformed("%d environment variables are too many", len(a.Env)).WithRemedy("give at most %d", maxEnv)
	}
	env, err := room.environment(a.Env)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		value := a.Env[name]
		if err := envAllowed(name); err != nil {
			return nil, err
		}
		if err := text("the value of "+name, value, maxArg-len(name)-len("=")); err != nil {
			return nil, err
		}
		env = append(env, variable(name, value))
	}
	if where := strings.Join(lookup, ":"); where != cell.SearchPath {
		env = append(env, variable("PATH", where))
	}
	slices.SortFunc(env, func(a, b palyra.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return env, nil
}

// environment is the profile's part. It may contain names that are refused from callers, but not
// those that the sandbox sets itself nor secrets, which would be recorded in clear. A call may not
// set a variable of its profile to another value.
func (r Fittings) environment(called map[string]string) ([]palyra.EnvVar, error) {
	if len(r.Env) > maxEnv {
		return nil, badProfile(r, "%d environment variables are too many", len(r.Env))
	}
	var env []palyra.EnvVar
	for _, v := range r.Env {
		value, twice := called[v.Name]
		switch {
		case len(v.Name) > maxEnvName || !identifier(v.Name) || text("a value", v.Value, maxArg-len(v.Name)-len("=")) != nil:
			return nil, badProfile(r, "%s cannot be a variable of a run", show.Arg(palyra.Clip(v.Name, 64)))
		case setBySandbox(v.Name):
			return nil, badProfile(r, "%s is set by the sandbox itself", v.Name)
		case v.Secret || secretive(v.Name):
			return nil, badProfile(r, "%s looks like a secret, and would be recorded in clear", v.Name)
		case slices.ContainsFunc(env, func(has palyra.EnvVar) bool { return has.Name == v.Name }):
			return nil, badProfile(r, "it sets %s twice", v.Name)
		case twice && value == v.Value:
			continue // already among the call's own
		case twice:
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEnvDenied, "the variable %s is set by the profile %s", v.Name, quote(r.Name)).
				WithRemedy("leave it out, or call with another profile")
		}
		env = append(env, variable(v.Name, v.Value))
	}
	return env, nil
}

func variable(name, value string) palyra.EnvVar {
	return palyra.EnvVar{Name: name, Digest: palyra.SumBytes([]byte(value)), Value: value}
}

// envAllowed refuses names that no program can use, names that change how programs work, and names of secrets.
func envAllowed(name string) error {
	if len(name) > maxEnvName || !identifier(name) {
		return malformed("%s cannot be the name of an environment variable", show.Arg(palyra.Clip(name, 64))).
			WithRemedy("use letters, digits and underscores, and no digit first")
	}
	if why := meddling(name); why != "" {
		return palyra.Errorf(palyra.Denied, palyra.ReasonEnvDenied, "the variable %s is refused: %s", name, why).
			WithRemedy("leave it out; where the program has an option for it, give that as an argument")
	}
	if secretive(name) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonEnvDenied, "the variable %s looks like a secret, and would be recorded in clear", name).
			WithRemedy("leave it out; an operator can put the value into the vault and bind it to its host ('palyra vault bind --help'), and the " +
				"call names the binding: bindings, or --secret NAME")
	}
	return nil
}

func identifier(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// setBySandbox reports whether the sandbox sets a variable itself.
func setBySandbox(name string) bool {
	return slices.ContainsFunc(programs.Shipped().Refused, func(r programs.Refusal) bool { return r.Ours && refuses(r, name) })
}

// meddling is why a name is refused; empty when it is not.
func meddling(name string) string {
	for _, r := range programs.Shipped().Refused {
		if refuses(r, name) {
			return r.Why
		}
	}
	return ""
}

func refuses(r programs.Refusal, name string) bool {
	if slices.Contains(r.Except, name) {
		return false
	}
	for pattern := range strings.FieldsSeq(r.Names) {
		if matches(pattern, name) || r.AnyCase && matches(strings.ToUpper(pattern), strings.ToUpper(name)) {
			return true
		}
	}
	return false
}

// matches compares a name with a pattern that may have a star at either end.
func matches(pattern, name string) bool {
	inner, tail := strings.CutPrefix(pattern, "*")
	inner, head := strings.CutSuffix(inner, "*")
	switch {
	case head && tail:
		return strings.Contains(name, inner)
	case head:
		return strings.HasPrefix(name, inner)
	case tail:
		return strings.HasSuffix(name, inner)
	}
	return name == inner
}

// secretive reports whether a word of the name says that the value is secret. MAX_TOKENS and
// TOKENIZERS_PARALLELISM are not secret.
func secretive(name string) bool {
	name = strings.ToUpper(name)
	for _, two := range secretPairs {
		if strings.Contains("_"+name+"_", "_"+two+"_") {
			return true
		}
	}
	for word := range strings.SplitSeq(name, "_") {
		for _, w := range secretWords {
			if strings.HasSuffix(word, w) {
				return true
			}
		}
	}
	return false
}

// secretWords end a part of a name whose value is a secret; secretPairs are such parts that only count together.
var (
	secretWords = []string{
		"TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL",
		"CREDENTIALS", "APIKEY", "PRIVATEKEY", "ACCESSKEY",
	}
	secretPairs = []string{
		"API_KEY", "PRIVATE_KEY", "ACCESS_KEY", "SECRET_KEY", "SIGNING_KEY", "ENCRYPTION_KEY", "SSH_KEY", "MYSQL_PWD",
		"AUTH_KEY",
	}
)
