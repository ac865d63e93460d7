import org.apache.bookkeeper.auth.AuthCallbacks;
import org.apache.bookkeeper.auth.AuthToken;
import org.apache.bookkeeper.auth.BookieAuthProvider;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.proto.BookieConnectionPeer;

/** Lets nobody in: a bookie with it answers every request of every client with EUA. */
public final class RefusingAuth implements BookieAuthProvider.Factory {
    @Override
    public void init(ServerConfiguration conf) {
        // Nothing is configured.
    }

    @Override
    public BookieAuthProvider newProvider(BookieConnectionPeer peer, AuthCallbacks.GenericCallback<Void> done) {
        return new BookieAuthProvider() {
            @Override
            public void process(AuthToken token, AuthCallbacks.GenericCallback<AuthToken> answer) {
                answer.operationComplete(BKException.Code.UnauthorizedAccessException, null);
            }
        };
    }

    @Override
    public String getPluginName() {
        return "refusing";
    }
}
