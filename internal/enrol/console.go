package enrol

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"palyra"
)

// OpenConsole opens the door for browsers by a function that takes where it is to listen. A daemon without one serves:
// what is wrong is returned for the status, and logged.
func (v *Devices) OpenConsole(open func(listen string) (address string, err error)) error {
	listen := v.Settings.Console.Listen
	if listen == "off" {
		return nil
	}
	address, err := open(listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return v.consoleElsewhere(open, listen, err)
	}
	if err != nil {
		v.Log.Warn("no console", "error", err)
		return err
	}
	v.Log.Info("the console is served; 'palyra console' prints a link", "address", address)
	return nil
}

// consoleElsewhere opens it at another port where nobody set one: another daemon has the usual one, perhaps. It opens
// none while a browser is paired: that browser's key belongs to the origin that somebody else answers at now.
func (v *Devices) consoleElsewhere(open func(string) (string, error), usual string, taken error) error {
	var address string
	err := taken
	switch {
	case v.hasBrowser():
		err = palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig,
			"%s is taken by another program, which paired browsers would take for the console, so none is served", usual).
			WithRemedy("find that program and end it, then start the daemon again; if it is not one of yours, first revoke the browsers: " +
				"palyra device list, palyra device revoke NAME").WithCause(taken)
	case v.Settings.Default("console.listen"):
		address, err = open("127.0.0.1:0")
	}
	if err != nil {
		v.Log.Warn("no console", "error", err)
		return err
	}
	v.Log.Warn("the console is not where it usually is", "usual", usual, "address", address)
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig,
		"%s is taken by another program, so it is served at %s until this daemon ends", usual, address).
		WithRemedy("set console.listen to an address of its own (127.0.0.1:0 takes any that is free)")
}

// hasBrowser reports whether a browser is paired. What cannot be found out is taken as yes.
func (v *Devices) hasBrowser() bool {
	all, err := v.Access.Devices(context.Background())
	return err != nil || slices.ContainsFunc(all, func(d palyra.Device) bool { return d.Live() && d.Browser() })
}
