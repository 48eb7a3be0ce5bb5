package pairing

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"palyra"
)

// answer is the one message that a device sends after its proof, or the error in its place.
type answer struct{ err error }

// ending is how a pairing fails after the proof: what the person sees, and what the device is told.
type ending struct {
	event offerEvent
	shown palyra.Reason
	text  string
	told  error
}

func lostEnding(text string, err error) *ending {
	return &ending{eventLose, palyra.ReasonPairingBroken, text, broken(err)}
}

// admit asks the person and hands the certificate over. A crash before the answer leaves nothing; one after it
// leaves a device here that may or may not have stored its certificate, which the offer's last report says.
func (v *visit) admit(ctx context.Context, f *offer, s sharedKey, c Candidate) {
	answers := make(chan answer, 1)
	end := v.question(ctx, f, s, c, answers)
	if end == nil {
		return
	}
	v.o.failed(ctx, palyra.PairingFailed{
		Pairing: c.Pairing, Reason: palyra.AsError(end.told).Reason, Address: v.address, Tries: f.snapshot().Tries,
	})
	f.settle(end.event, withReason(end.shown, end.text))
	v.w.refuseNoWait(end.told)
	<-answers // the device hangs up, or the time for that is over
}

// question does what admit promises. It closes answers, at the latest some time after it has returned.
func (v *visit) question(ctx context.Context, f *offer, s sharedKey, c Candidate, answers chan answer) *ending {
	ctx, stop := context.WithTimeout(ctx, askMost)
	defer stop()
	ctx, left := context.WithCancelCause(ctx)
	err := v.w.send(s.welcome(v.o.c.StateID, v.o.c.Authorities()))
	if err == nil {
		err = v.conn.SetReadDeadline(time.Now().Add(askMost + v.w.patience))
	}
	if err != nil {
		close(answers)
		left(nil)
		return lostEnding("the device went away", err)
	}
	go func() {
		defer close(answers)
		_, err := v.w.expect(typeAck)
		answers <- answer{err}
		left(errLeft) // nothing is due before the certificate is
	}()
	issued, err := v.o.c.Ask(ctx, c, f.asked)
	if err == nil && (len(issued.Certificate) == 0 || issued.Device.PublicKey != c.PublicKey) {
		err = palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the certificate is not for the device that was asked about")
	}
	if err != nil {
		return unanswered(context.Cause(ctx), err)
	}
	return v.deliver(f, s, issued, answers)
}

// unanswered is the ending of a question that was not answered with yes; cause is
// why it ended by itself, if it did.
func unanswered(cause, err error) *ending {
	e := palyra.AsError(err)
	switch {
	case errors.Is(cause, errWithdrawn):
		return &ending{
			eventLose, palyra.ReasonCancelled, "the offer was withdrawn while a person was asked",
			problem(palyra.ReasonPairingRefused),
		}
	case cause != nil && !errors.Is(cause, context.DeadlineExceeded):
		return lostEnding("the connection ended while a person was asked", cause)
	case cause != nil || e.Reason == palyra.ReasonApprovalExpired:
		return &ending{eventSilence, palyra.ReasonApprovalExpired, "nobody answered the question in time", problem(palyra.ReasonPairingExpired)}
	}
	said := palyra.ReasonPairingRefused
	if e.Reason == palyra.ReasonExists { // the one no that the device can do something about
		said = palyra.ReasonExists
	}
	return &ending{eventDeny, e.Reason, e.Text, problem(said).WithCause(err)}
}

// deliver gives the device its certificate and waits until it has stored it.
func (v *visit) deliver(f *offer, s sharedKey, issued Issued, answers <-chan answer) *ending {
	device := issued.Device
	f.settle(eventIssue, func(p *palyra.Pairing) { p.Device = &device })
	if err := v.hand(s, issued, answers); err != nil {
		return lostEnding("the device is paired but did not say that it stored its certificate; revoke it if it does not come back", err)
	}
	// It has everything, whether or not it hears us; before the offer ends, since the listener may close with it.
	_ = v.w.send(message{Type: typeDone})
	f.settle(eventAck, nil)
	return nil
}

func (v *visit) hand(s sharedKey, issued Issued, answers <-chan answer) error {
	raw, err := json.Marshal(issued.Device)
	if err != nil {
		return err
	}
	select {
	case <-answers:
		return errSequence
	default:
	}
	if err := v.w.send(s.issue(raw, issued.Certificate, issued.Authorities)); err != nil {
		return err
	}
	if err := v.conn.SetReadDeadline(time.Now().Add(v.w.patience)); err != nil {
		return err
	}
	return (<-answers).err
}
