package enrol

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"syscall"

	"palyra"
	"palyra/internal/certfile"
)

// Beyond is a door for browsers of other machines, as the doors take it: its kind, where it is to listen, and of HTTPS the
// name and the certificate.
type Beyond = func(kind, listen, name string, conf *tls.Config) (address string, err error)

// OpenConsole opens the doors for browsers by functions of the doors. A daemon without them serves: what is wrong is
// returned for the status, and logged.
func (v *Devices) OpenConsole(open func(listen string) (address string, err error), beyond Beyond) error {
	here, there := v.openConsole(open), v.openBeyond(beyond)
	if here == nil {
		return there
	}
	if e := palyra.AsError(here); there != nil {
		return palyra.Errorf(e.Code, e.Reason, "%s; and %s", e.Text, palyra.AsError(there).Text).
			WithRemedy("%s; and %s", e.Remedy, palyra.AsError(there).Remedy)
	}
	return here
}

// openBeyond opens the doors for browsers of other machines.
func (v *Devices) openBeyond(open Beyond) (first error) {
	c := v.Settings.Console
	for _, door := range []struct {
		kind, listen string
		conf         func() (*tls.Config, error)
	}{
		{"https", c.HTTPSListen, v.certified},
		{"plain", c.PlainListen, func() (*tls.Config, error) { return nil, nil }},
	} {
		if door.listen == "off" || door.listen == "" {
			continue
		}
		conf, err := door.conf()
		address := ""
		if err == nil {
			address, err = open(door.kind, door.listen, c.HTTPSName, conf)
		}
		if err != nil {
			v.Log.Warn("no console for other machines", "door", door.kind, "error", err)
			first = cmp.Or(first, err)
			continue
		}
		v.Log.Info("the console is served to other machines; 'palyra console --door "+door.kind+"' prints a link", "address", address)
	}
	return first
}

// certified is what HTTPS is served with: the certificate and the key of the files, as they are when a browser comes.
func (v *Devices) certified() (*tls.Config, error) {
	c := v.Settings.Console
	pair, err := certfile.Open(c.Certificate, c.Key, c.HTTPSName, v.Now)
	if err != nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the console cannot be served over HTTPS: %v", err).
			WithRemedy("set console.https_name, console.certificate and console.key, then restart the daemon; " +
				"the key's file is to be readable by the daemon's user or root alone: chmod 600").WithCause(err)
	}
	pair.Trouble = func(err error) { v.Log.Warn("the console's new certificate is not used", "error", err) }
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.Certificate, NextProtos: []string{"http/1.1"}}, nil
}

// openConsole opens the door for browsers on this machine.
func (v *Devices) openConsole(open func(listen string) (address string, err error)) error {
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
