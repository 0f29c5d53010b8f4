// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"time"

	"xfer"
)

// offer is what a borrower is told, as one line of JSON.
type offer struct {
	URI    string `json:"uri"` // of the engine
	Ref    string `json:"ref"` // of the grant
	Length uint64 `json:"length"`
}

// lender lends contents by name, each for as long as the HTTP request that asked for it stays.
type lender struct {
	engine   *xfer.Engine
	contents map[string]*xfer.Region
	lease    time.Duration // renewed while the borrower is there: it bounds what outlives a lender that hangs
	renewal  time.Duration
}

func newLender(uri string, lease time.Duration) (*lender, error) {
	engine, err := xfer.Open(xfer.Options{})
	if err != nil {
		return nil, err
	}
	if _, err := engine.Listen(uri, xfer.ListenOptions{}); err != nil {
		engine.Close()
		return nil, err
	}
	return &lender{engine, map[string]*xfer.Region{}, lease, lease / 3}, nil
}

// add copies content into memory that is lent by grants alone. Before the first request.
func (l *lender) add(name string, content []byte) error {
	region, err := l.engine.Alloc(uint64(len(content)), xfer.RegionOptions{})
	if err != nil {
		return err
	}
	copy(region.Bytes(), content)
	l.contents[name] = region
	return nil
}

// ServeHTTP answers GET /name with an offer, and takes it back when the borrower disconnects.
func (l *lender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	region, is := l.contents[r.URL.Path[1:]]
	if !is {
		http.NotFound(w, r)
		return
	}
	length := uint64(len(region.Bytes()))
	grant, err := region.Grant(xfer.GrantOptions{Access: xfer.Read, Length: length, Lease: l.lease})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() {
		grant.Revoke()
		<-grant.Ended() // nobody reads by it any more
	}()
	uri, err := l.engine.Addresses()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	json.NewEncoder(w).Encode(offer{uri, grant.Ref().String(), length})
	http.NewResponseController(w).Flush()
	renew := time.NewTicker(l.renewal)
	defer renew.Stop()
	for {
		select {
		case <-renew.C:
			if grant.Renew(l.lease) != nil {
				return // it has ended
			}
		case <-grant.Ended():
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (l *lender) Close() error { return l.engine.Close() }
