package pairing

import (
	"time"

	"palyra"
)

// problems are the only errors that one side may tell the other. Each side has its own words for them: text
// from the wire is never shown to a person.
var problems = map[palyra.Reason]*palyra.Error{
	palyra.ReasonPairingWrongCode: palyra.Errorf(palyra.Denied, palyra.ReasonPairingWrongCode, "the code is wrong").
		WithRemedy("look at the code that 'palyra device pair' shows and try again; if it was right, someone may be between the two " +
			"machines: compare the address"),
	palyra.ReasonPairingExpired: palyra.Errorf(palyra.Expired, palyra.ReasonPairingExpired, "no pairing code is valid there now").
		WithRemedy("run 'palyra device pair' on the daemon's machine and use the new code within two minutes"),
	palyra.ReasonPairingLocked: palyra.Errorf(palyra.Exhausted, palyra.ReasonPairingLocked, "the code was tried too often and is dead").
		WithRemedy("run 'palyra device pair' again; if it was not you who tried, someone else is trying to pair"),
	palyra.ReasonPairingRefused: palyra.Errorf(palyra.Denied, palyra.ReasonPairingRefused, "the pairing was refused").
		WithRemedy("ask the person who decides about devices of that daemon"),
	palyra.ReasonExists: palyra.Errorf(palyra.Conflict, palyra.ReasonExists,
		"a device there is or was called by this name, and nobody was asked").
		WithRemedy("use a new code and another name: palyra device join --name OTHER; that of a revoked device is not given again"),
	palyra.ReasonPairingBusy: palyra.Errorf(palyra.Conflict, palyra.ReasonPairingBusy, "another pairing is under way there").
		WithRemedy("wait until it is over, then use a new code"),
	palyra.ReasonPairingBroken: palyra.Errorf(palyra.Unavailable, palyra.ReasonPairingBroken, "the pairing broke off").
		WithRemedy("pair again with a new code, with a current palyra on both machines"),
	palyra.ReasonPairingImpostor: palyra.Errorf(palyra.Denied, palyra.ReasonPairingImpostor,
		"the other side is not the daemon that showed the code").
		WithRemedy("check the address; do not use this code again, and be wary of this network"),
	palyra.ReasonRateLimited: palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too many attempts to pair").
		WithRemedy("wait a little before the next attempt"),
}

// problem returns the error for a reason; one it does not know is pairing_broken.
func problem(r palyra.Reason) *palyra.Error {
	e, ok := problems[r]
	if !ok {
		e = problems[palyra.ReasonPairingBroken]
	}
	c := *e
	return &c
}

func broken(err error) error { return problem(palyra.ReasonPairingBroken).WithCause(err) }

// wireError turns a reason from the wire into an error of ours.
func wireError(r palyra.Reason, afterMS int64) *palyra.Error {
	e := problem(r)
	if after := time.Duration(min(max(afterMS, 0), time.Hour.Milliseconds())) * time.Millisecond; after > 0 && e.Code == palyra.Exhausted {
		e = e.WithAfter(after)
		if r == palyra.ReasonRateLimited {
			e = e.WithRemedy("wait %s before the next attempt", (after + time.Second - 1).Truncate(time.Second))
		}
	}
	return e
}
