"""Who refers to ledgers: what applications keep of them, in the metadata's own store or in another one."""
