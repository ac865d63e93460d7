package org.apache.bookkeeper.client;

import org.apache.bookkeeper.proto.BookieClient;

/** What a client of every release has, and some of them keep to their own package. */
public final class Clients {
    private Clients() {
    }

    /** What sends single requests to single bookies. */
    public static BookieClient bookieClient(BookKeeper client) {
        return client.getBookieClient();
    }
}
