package controller

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/security"
)

func newCertsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "certs",
		Short: "Make the certificates of a cluster's controllers, nodes and users",
		Long: `Make the certificates of a cluster's controllers, nodes and users.

One command makes an authority and, below the same directory, an identity for each role: controller, node, admin,
operator and reader. Give each program the directory of its role with --identity. A reader may read the cluster's state,
an operator may also drain, move and back up, and an admin may do everything. Keep the directory "authority" secret: with
it anyone can make certificates.`,
	}
	c.AddCommand(certsCommand("make", "Make an authority and an identity for every role", security.Make))
	c.AddCommand(certsCommand("renew", "Make new certificates for all roles and nodes with the same authority", security.Renew))
	c.AddCommand(newNodeCertificateCommand())
	c.AddCommand(newRevokeCommand())
	return c
}

func newNodeCertificateCommand() *cobra.Command {
	var days int
	c := &cobra.Command{
		Use:   "node DIRECTORY NAME...",
		Short: "Make a certificate for one node, which no other node can use",
		Long: `Make a certificate for one node, which no other node can use.

The certificate has the node's name. Controllers refuse a registration under another name, and nodes copy shards only
from and to nodes with their own names. A node with the certificate of the role, which has no name, can take any name:
once all nodes have their own, revoke it.`,
		Example: `  netcraq certs node certs n1 n2 n3
  netcraq node --name n1 --identity certs/nodes/n1 --join 192.0.2.1`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if days < 1 {
				return cli.UsageError(fmt.Errorf("--days must be at least 1, not %d", days))
			}
			for _, name := range args[1:] {
				if err := security.MakeNode(args[0], name, time.Duration(days)*24*time.Hour); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%s is the identity of node %s, valid for %d days\n",
					security.NodeDir(args[0], name), name, days); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().IntVar(&days, "days", 365, "validity of the certificates in days")
	return c
}

func certsCommand(name, short string, do func(dir string, hosts []string, valid time.Duration) error) *cobra.Command {
	var controllers []string
	var days int
	c := &cobra.Command{
		Use:     name + " DIRECTORY",
		Short:   short,
		Example: "  netcraq certs " + name + " certs --controllers 192.0.2.1,192.0.2.2,192.0.2.3",
		Args:    cli.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			if days < 1 {
				return cli.UsageError(fmt.Errorf("--days must be at least 1, not %d", days))
			}
			if err := do(args[0], controllers, time.Duration(days)*24*time.Hour); err != nil {
				return err
			}
			hosts, err := security.Hosts(args[0])
			if err != nil {
				return err
			}
			if len(hosts) == 0 {
				fmt.Fprintln(c.ErrOrStderr(),
					"netcraq: the controllers' certificate names no address: controllers that run etcd themselves "+
						"need their addresses in it: netcraq certs renew", args[0], "--controllers ADDRESSES")
			}
			names := make([]string, len(security.Roles))
			for i, role := range security.Roles {
				names[i] = string(role)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s holds identities of %s, valid for %d days; use one with --identity %s\n",
				args[0], strings.Join(names, ", "), days, filepath.Join(args[0], string(security.Admin)))
			return err
		},
	}
	c.Flags().StringSliceVar(&controllers, "controllers", nil,
		"addresses or names of the controllers; required if they embed etcd (renew: default those of the current certificate)")
	c.Flags().IntVar(&days, "days", 365, "validity of the certificates in days; the authority's is ten times as long")
	return c
}

func newRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke DIRECTORY CERTIFICATE...",
		Short: "Refuse certificates from now on",
		Long: `Refuse certificates from now on.

The certificates go on the list revoked.crl, which the authority signs and which is in the directory of each role. Copy it
to the directories that programs use: they read it again without a restart, and refuse the next connection and the next
call. To replace the certificate of a role that was stolen, keep the old one, renew, and revoke the old one.`,
		Example: "  cp certs/reader/cert.pem stolen.pem\n  netcraq certs renew certs\n  netcraq certs revoke certs stolen.pem",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := security.Revoke(args[0], args[1:]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%d revoked; copy revoked.crl from below %s to where the identities are used\n",
				len(args)-1, args[0])
			return err
		},
	}
}
