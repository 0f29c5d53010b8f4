// SPDX-License-Identifier: Apache-2.0

// Lends files: HTTP tells who may read what, and libxfer moves the bytes. A borrower has a grant with a lease, which is
// renewed while its request stays open, and revoked when it disconnects.
//
//	lend serve HTTP_ADDRESS XFER_URI FILE...     lend serve 127.0.0.1:8080 tcp://127.0.0.1:0 a.bin
//	lend fetch URL                               lend fetch http://127.0.0.1:8080/a.bin > copy.bin
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"xfer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 4 && os.Args[1] == "serve":
		err = serve(ctx, os.Args[2], os.Args[3], os.Args[4:])
	case len(os.Args) == 3 && os.Args[1] == "fetch":
		err = get(ctx, os.Args[2])
	default:
		err = fmt.Errorf("usage: lend serve HTTP_ADDRESS XFER_URI FILE... | lend fetch URL")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, address, uri string, files []string) error {
	l, err := newLender(uri, 30*time.Second)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := l.add(filepath.Base(file), content); err != nil {
			return err
		}
	}
	server := http.Server{Addr: address, Handler: l}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func get(ctx context.Context, url string) error {
	engine, err := xfer.Open(xfer.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	content, err := fetch(ctx, engine, url)
	if err == nil {
		_, err = os.Stdout.Write(content)
	}
	return err
}
