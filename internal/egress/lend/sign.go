package lend

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"time"

	"palyra"
	"palyra/internal/egress/sigv4"
	"palyra/secrets"
)

// awsKey is a key of AWS that was lent, with the bindings that it is for.
type awsKey struct {
	scope, secret string
	stand, real   sigv4.Key
	bindings      []secrets.Binding
}

// Signature is told of before it is made.
type Signature struct {
	Binding secrets.Binding
	sigv4.Record
}

// take takes loans over. A key of AWS becomes one loan for each of its parts, so that each has a placeholder, is masked in
// answers and is told of where it strays; several bindings of one key share them.
func (d *Desk) take(loans []secrets.Loan) error {
	var errs []error
	for _, l := range loans {
		if l.Kind != secrets.SigV4 {
			d.loans = append(d.loans, l)
			continue
		}
		errs = append(errs, d.takeKey(l))
		l.Value.Destroy()
	}
	err := errors.Join(errs...)
	if err != nil {
		d.Close()
	}
	return err
}

func (d *Desk) takeKey(l secrets.Loan) error {
	of := slices.IndexFunc(d.keys, func(k awsKey) bool { return k.scope == string(l.Scope) && k.secret == l.Secret })
	if of < 0 {
		var key secrets.AWSKey
		err := l.Value.Use(func(b []byte) (err error) { key, err = secrets.ParseAWSKey(b); return err })
		if err != nil {
			return err
		}
		d.keys = append(d.keys, newKey(l.Binding, key))
		of = len(d.keys) - 1
		d.loans = append(d.loans, partsOf(l.Binding, key, d.keys[of].stand)...)
	} else {
		for i := range d.loans { // the parts are told of by the first binding, and are at home at the hosts of all
			if p := &d.loans[i]; p.Kind == secrets.SigV4 && p.Scope == l.Scope && p.Secret == l.Secret {
				p.Hosts = slices.Concat(p.Hosts, l.Hosts)
			}
		}
	}
	d.keys[of].bindings = append(d.keys[of].bindings, l.Binding)
	return nil
}

// newKey makes up what stands for a key.
func newKey(b secrets.Binding, key secrets.AWSKey) awsKey {
	k := awsKey{scope: string(b.Scope), secret: b.Secret, real: sigv4.Key{ID: textOf(key.ID), Secret: key.Secret, Token: textOf(key.Token)}}
	k.stand.ID = standID(k.real.ID)
	_ = key.Secret.Use(func(b []byte) error { k.stand.Secret = palyra.NewSecret([]byte(Placeholder(b))); return nil })
	if k.real.Token != "" {
		k.stand.Token = Placeholder([]byte(k.real.Token))
	}
	return k
}

func textOf(s palyra.Secret) (text string) {
	_ = s.Use(func(b []byte) error { text = string(b); return nil })
	return text
}

// partsOf are the parts of a key, each as a loan.
func partsOf(b secrets.Binding, key secrets.AWSKey, stand sigv4.Key) (parts []secrets.Loan) {
	for _, p := range []struct {
		env, stand string
		value      palyra.Secret
	}{
		{secrets.EnvAWSID, stand.ID, key.ID},
		{secrets.EnvAWSSecret, textOf(stand.Secret), key.Secret},
		{secrets.EnvAWSToken, stand.Token, key.Token},
	} {
		if p.stand == "" {
			continue
		}
		one := b
		one.Env = p.env
		parts = append(parts, secrets.Loan{Binding: one, Placeholder: p.stand, Value: p.value})
	}
	return parts
}

// idLetters are those of the ids of keys.
const idLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// standID is what stands for the id of a key: as long, with the same beginning where AWS says what that means.
func standID(id string) string {
	begin := "AKIA"
	if len(id) > 4 && id[:4] == "ASIA" {
		begin = "ASIA"
	}
	raw := make([]byte, max(len(id), 20)-len(begin))
	_, _ = rand.Read(raw) // it never fails
	for i, b := range raw {
		raw[i] = idLetters[int(b)%len(idLetters)]
	}
	return begin + string(raw)
}

// regions are the variables of the run that say where its key is for, if that is one region.
func (d *Desk) regions() (env []string) {
	for _, k := range d.keys {
		region, _ := k.bindings[0].Region()
		if slices.ContainsFunc(k.bindings, func(b secrets.Binding) bool { r, _ := b.Region(); return r != region }) {
			continue
		}
		for _, name := range secrets.EnvAWSRegions() {
			env = append(env, name+"="+region)
		}
	}
	return env
}

// sign signs a request again that says it is signed with a placeholder key, and returns the name of the binding; empty: it
// says no such thing. An error refuses the request.
func (x *exchange) sign(r *http.Request) (binding string, err error) {
	for _, k := range x.desk.keys {
		if !sigv4.Claims(r, k.stand.ID) {
			continue
		}
		here := slices.DeleteFunc(slices.Clone(k.bindings), func(b secrets.Binding) bool { return !slices.Contains(b.Hosts, x.way.At) })
		if len(here) == 0 {
			continue // a placeholder at a host of another secret stays one
		}
		b := here[0]
		region, service := sigv4.Scope(r)
		if i := slices.IndexFunc(here, func(b secrets.Binding) bool { return b.Place == region+"/"+service }); i >= 0 {
			b = here[i]
		}
		mandate := sigv4.Mandate{Stand: k.stand}
		mandate.Region, mandate.Service = b.Region()
		signed, err := mandate.Verify(r, time.Now(), x.desk.reading)
		if err != nil {
			return b.Name, err
		}
		return b.Name, signed.Again(r, k.real, hostInURL(x.way.At), func(s sigv4.Record) error { return x.record(b, s) }, func(err error) {
			if palyra.AsError(err).Reason == palyra.ReasonSignatureRefused {
				x.way.Note(Use{Stray: []string{b.Name}})
			}
		})
	}
	return "", nil
}

// record has a signature told of. Where that cannot be done there is none.
func (x *exchange) record(b secrets.Binding, s sigv4.Record) error {
	if x.way.Sign == nil {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonSignatureRefused, "nothing is signed here").
			WithRemedy("propose the call with a program")
	}
	return x.way.Sign(Signature{b, s})
}
