import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.etcd.jetcd.Auth;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.auth.Permission;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class AuthTest extends Store {
  private static void refused(String why, CompletableFuture<?> call) {
    Exception error = assertThrows(Exception.class, () -> get(call));
    assertTrue(error.getMessage().contains(why), error.getMessage());
  }

  @Test
  void usersHaveTheirKeysOnly() throws Exception {
    put("f/1", 1);
    put("secret", "s");
    for (int i = 0; i < 5; i++) {
      assertEquals("s", value("secret")); // it may be cached now
    }
    Auth auth = client.getAuthClient();
    get(auth.userAdd(bytes("root"), bytes("root")));
    get(auth.userAdd(bytes("user"), bytes("password")));
    get(auth.roleAdd(bytes("root")));
    get(auth.roleAdd(bytes("f")));
    get(auth.roleGrantPermission(bytes("f"), bytes("f/"), bytes("f0"), Permission.Type.READWRITE));
    get(auth.userGrantRole(bytes("root"), bytes("root")));
    get(auth.userGrantRole(bytes("user"), bytes("f")));
    get(auth.authEnable());
    try (Client root = builder().user(bytes("root")).password(bytes("root")).build();
        Client user = builder().user(bytes("user")).password(bytes("password")).build()) {
      get(user.getKVClient().put(bytes("f/1"), bytes(2)));
      assertEquals("2", text(get(user.getKVClient().get(bytes("f/1"))).getKvs().get(0).getValue()));
      refused("permission denied", user.getKVClient().get(bytes("secret")));
      refused("permission denied", user.getKVClient().put(bytes("secret"), bytes("x")));
      refused("", client.getKVClient().put(bytes("f/1"), bytes(3)));
      assertEquals("s", text(get(root.getKVClient().get(bytes("secret"))).getKvs().get(0).getValue()));
      get(root.getAuthClient().authDisable());
    }
    for (String name : new String[] {"root", "user"}) {
      get(auth.userDelete(bytes(name)));
    }
    for (String name : new String[] {"root", "f"}) {
      get(auth.roleDelete(bytes(name)));
    }
  }
}
