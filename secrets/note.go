package secrets

import "strings"

// Note says for people where the value of a binding goes. Names and users have no character that could deceive.
func (b Binding) Note() string {
	switch b.Kind {
	case SigV4:
		region, service := b.Region()
		return "gets placeholder keys (" + EnvAWSID + ", " + EnvAWSSecret + ") for the secret " + b.Secret +
			", by the binding " + b.Name + "; what it signs with them for " + service + " in " + region +
			" is signed again with the true key at " + strings.Join(b.Hosts, ", ") + ", whose TLS Palyra opens for this run"
	case SSHAgent:
		as := ""
		if b.User != "" {
			as = " as " + b.User
		}
		return "may log in by ssh" + as + " at " + strings.Join(b.Hosts, ", ") + " with the key " + Fingerprint(b.Key) +
			", by the binding " + b.Name + "; Palyra signs that and nothing else, and the key stays outside"
	case GitSSH:
		as := ""
		if b.User != "" {
			as = " as " + b.User
		}
		return "its git may ask to be connected by ssh" + as + " at " + strings.Join(b.Hosts, ", ") + " with the key " + Fingerprint(b.Key) +
			", by the binding " + b.Name + "; each repository and each push is shown and decided about by itself, and the key stays outside"
	case Signing:
		return "may ask for signatures of commits and tags by the key " + Fingerprint(b.Key) + ", by the binding " + b.Name +
			"; each is shown and decided about by itself, and the key stays outside"
	}
	place := string(b.Kind)
	if b.Place != "" {
		place += " " + b.Place
	}
	in := ""
	if b.Env != "" {
		in = " (" + b.Env + ")"
	}
	return "gets a placeholder" + in + " for the secret " + b.Secret + ", by the binding " + b.Name +
		"; its value goes into " + place + " at " + strings.Join(b.Hosts, ", ") + ", whose TLS Palyra opens for this run"
}
