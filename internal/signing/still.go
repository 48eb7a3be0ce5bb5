package signing

import (
	"context"

	"palyra"
)

// errChanged is for a binding that is not as the run was given it.
var errChanged = palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRefused,
	"the binding of the key is another one than the run was given").
	WithRemedy("start the run again: it gets the key as it is bound now")

// still finds out that the run may have a key as it was given it, and returns the promise of its binding. The run holds
// its keys from its start on: an operator who takes one away means the runs that have it too.
func (b *Broker) still(ctx context.Context, binding string) (promise string, err error) {
	if promise, err = b.same(ctx, binding); err != nil {
		if ctx.Err() == nil {
			b.refuse(ctx, "a key that the run was given, and may not have any more: "+palyra.Clip(binding, 128))
		}
		return "", err
	}
	return promise, nil
}

func (b *Broker) same(ctx context.Context, binding string) (string, error) {
	held, cancel := context.WithCancel(b.ctx) // it knows whose run it is
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	loans, err := b.Lend(held, binding)
	defer func() {
		for _, l := range loans {
			l.Value.Destroy()
		}
	}()
	switch {
	case err != nil:
		return "", err
	case len(loans) != 1:
		return "", palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRefused, "the key of the binding %s is not there any more",
			palyra.Clip(binding, 128)).WithRemedy("have an operator put it again (see 'palyra vault bindings'), and start the run again")
	case loans[0].Name != binding || loans[0].Promise() != b.lent[binding]:
		return "", errChanged
	}
	_, err = bound(held, loans[0])
	return b.lent[binding], err
}

// asked puts the use of a key to the gate, with the promise of its binding. A yes holds for a key that is still the run's.
func (b *Broker) asked(ctx context.Context, binding string, ask func(promise string) error) error {
	promise, err := b.still(ctx, binding)
	if err == nil {
		err = ask(promise)
	}
	if err == nil {
		_, err = b.still(ctx, binding) // people take their time
	}
	return err
}
