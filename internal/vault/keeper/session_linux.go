package keeper

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"math/big"

	"github.com/godbus/dbus/v5"
)

// sealedSession is how keys pass the bus: so that whoever records it, to look for a fault, records none. It is made of
// what every Secret Service has, a group of 1024 bits. It stops nobody who can ask the service themselves.
const sealedSession = "dh-ietf1024-sha256-aes128-cbc-pkcs7"

// group is the second group of RFC 2409; its generator is 2.
var group, _ = new(big.Int).SetString("FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"+
	"EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"+
	"49286651ECE65381FFFFFFFFFFFFFFFF", 16)

// exchange is a session of the service, in which secrets pass the bus.
type exchange struct {
	path dbus.ObjectPath
	key  []byte // of AES-128
}

// secretOnBus is a secret as it passes the bus.
type secretOnBus struct {
	Session    dbus.ObjectPath
	Parameters []byte // the first block's mask
	Value      []byte
	Type       string
}

var errBadSession = errors.New("the service's part of the exchange makes no sense")

// newExchange returns a secret number and what the other side is told of it.
func newExchange() (own *big.Int, public []byte, err error) {
	own, err = rand.Int(rand.Reader, new(big.Int).Sub(group, big.NewInt(4)))
	if err != nil {
		return nil, nil, err
	}
	own.Add(own, big.NewInt(2))
	return own, new(big.Int).Exp(big.NewInt(2), own, group).Bytes(), nil
}

// shareKey makes the key of a session from our number and what the other side told.
func shareKey(own *big.Int, public []byte) ([]byte, error) {
	theirs := new(big.Int).SetBytes(public)
	if theirs.Cmp(big.NewInt(1)) <= 0 || theirs.Cmp(new(big.Int).Sub(group, big.NewInt(1))) >= 0 {
		return nil, errBadSession
	}
	shared := new(big.Int).Exp(theirs, own, group).FillBytes(make([]byte, group.BitLen()/8)) // with the zeros in front
	defer clear(shared)
	return hkdf.Key(sha256.New, shared, nil, "", aes.BlockSize)
}

// seal makes a text ready for the bus.
func (s exchange) seal(text []byte) (secretOnBus, error) {
	block, err := aes.NewCipher(s.key)
	if err != nil {
		return secretOnBus{}, err
	}
	fill := aes.BlockSize - len(text)%aes.BlockSize
	value := append(bytes.Clone(text), bytes.Repeat([]byte{byte(fill)}, fill)...)
	first := make([]byte, aes.BlockSize)
	_, _ = rand.Read(first) // it never fails
	cipher.NewCBCEncrypter(block, first).CryptBlocks(value, value)
	return secretOnBus{s.path, first, value, "text/plain; charset=utf8"}, nil
}

// open reads what came over the bus.
func (s exchange) open(in secretOnBus) ([]byte, error) {
	n := len(in.Value)
	if len(in.Parameters) != aes.BlockSize || n == 0 || n > maxFile || n%aes.BlockSize != 0 {
		return nil, errBadSession
	}
	block, err := aes.NewCipher(s.key)
	if err != nil {
		return nil, err
	}
	text := make([]byte, n)
	cipher.NewCBCDecrypter(block, in.Parameters).CryptBlocks(text, in.Value)
	fill := int(text[n-1])
	if fill == 0 || fill > aes.BlockSize || !bytes.Equal(text[n-fill:], bytes.Repeat([]byte{byte(fill)}, fill)) {
		clear(text)
		return nil, errBadSession
	}
	return text[:n-fill], nil
}
