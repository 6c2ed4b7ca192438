use super::*;
use futures::FutureExt;

fn identify(access: &Arc<Access>, credentials: Credentials) -> Option<Identity> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(access.identify(credentials, [127, 0, 0, 1].into())).ok().flatten()
}

fn password(name: &str, password: &str) -> Credentials {
    Credentials::Password(name.to_owned(), password.to_owned())
}

#[test]
fn a_password_or_token_is_known_until_the_file_says_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = AccessFile::open(directory.path()).unwrap();
    file.set_user("ann", "secret", Role::Admin).unwrap();
    let token = file.add_token("agent", Role::Write).unwrap();
    let access = Arc::new(Access::new(directory.path(), AnonymousAccess::WithoutUsers).unwrap());
    // The second time, the remembered result is used.
    for _ in 0..2 {
        assert_eq!(identify(&access, password("ann", "secret")).unwrap().role, Role::Admin);
        assert_eq!(identify(&access, Credentials::Token(token.clone())).unwrap().role, Role::Write);
    }
    assert!(identify(&access, password("ann", "Secret")).is_none());
    assert!(identify(&access, password("agent", token.split_once('.').unwrap().1)).is_none());
    assert!(identify(&access, Credentials::Token("ann.secret".to_owned())).is_none());
    assert!(identify(&access, Credentials::None).is_none());
    file.set_user("ann", "another", Role::Read).unwrap();
    file.remove_token("agent").unwrap();
    assert!(identify(&access, password("ann", "secret")).is_none());
    assert_eq!(identify(&access, password("ann", "another")).unwrap().role, Role::Read);
    assert!(identify(&access, Credentials::Token(token)).is_none());
}

#[test]
fn a_token_waits_for_nobody_who_guesses_passwords_at_its_address() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = AccessFile::open(directory.path()).unwrap();
    file.set_user("ann", "secret", Role::Admin).unwrap();
    let token = file.add_token("agent", Role::Write).unwrap();
    let access = Arc::new(Access::new(directory.path(), AnonymousAccess::WithoutUsers).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let address = [127, 0, 0, 1].into();
        // While these are held, no other login from the address gets a turn.
        let _turns = (access.hashes.acquire(address).await.unwrap(), access.passwords.acquire(address).await.unwrap());
        let asked = access.identify(Credentials::Token(token), address).now_or_never();
        assert_eq!(asked.unwrap().unwrap().unwrap().role, Role::Write);
        let forged = access.identify(Credentials::Token("agent.x".to_owned()), address).now_or_never();
        assert_eq!(forged.unwrap().unwrap(), None);
        assert!(access.identify(password("ann", "secret"), address).now_or_never().is_none());
    });
}

#[test]
fn without_users_everybody_is_let_in_and_a_broken_file_lets_nobody_in() {
    let directory = tempfile::tempdir().unwrap();
    let access = Arc::new(Access::new(directory.path(), AnonymousAccess::WithoutUsers).unwrap());
    assert_eq!(identify(&access, Credentials::None).unwrap().role, Role::Admin);
    std::fs::write(directory.path().join(FILE), "{").unwrap();
    assert!(identify(&access, Credentials::None).is_none());
    assert!(Access::new(directory.path(), AnonymousAccess::WithoutUsers).is_err());
}

#[test]
fn a_server_that_others_reach_lets_nobody_in_when_the_last_user_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    AccessFile::open(directory.path()).unwrap().set_user("ann", "secret", Role::Admin).unwrap();
    let access = Arc::new(Access::new(directory.path(), AnonymousAccess::Never).unwrap());
    assert!(identify(&access, password("ann", "secret")).is_some());
    AccessFile::open(directory.path()).unwrap().remove_user("ann").unwrap();
    assert!(identify(&access, Credentials::None).is_none());
    std::fs::remove_file(directory.path().join(FILE)).unwrap();
    assert!(identify(&access, Credentials::None).is_none());
    assert!(access.requires_login().unwrap() && access.role("ann", true).unwrap().is_none());
}

#[test]
fn names_and_passwords_that_cannot_be_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = AccessFile::open(directory.path()).unwrap();
    for name in ["", "a b", "a.b", "a:b", &"x".repeat(64)] {
        assert!(file.set_user(name, "secret", Role::Read).is_err(), "{name}");
    }
    assert!(file.set_user("ann", "", Role::Read).is_err());
    assert!(file.remove_user("ann").is_err());
    file.add_token("agent", Role::Read).unwrap();
    assert!(file.add_token("agent", Role::Read).is_err());
}

#[test]
fn a_new_file_is_read_at_once_also_if_the_directory_has_long_been_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let mut file = AccessFile::open(directory.path()).unwrap();
    file.set_user("ann", "secret", Role::Admin).unwrap();
    let access = Access::new(directory.path(), AnonymousAccess::Never).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let role = || access.role("ann", true).unwrap();
    for before in [Role::Admin, Role::Read] {
        File::open(directory.path()).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(role(), Some(before));
        file.set_user("ann", "secret", Role::Read).unwrap();
        assert_eq!(role(), Some(Role::Read));
    }
    // One that is written over, which leaves the directory as it is, is read when it is looked at.
    File::open(directory.path()).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(role(), Some(Role::Read));
    std::fs::write(path, "{}").unwrap();
    assert_eq!(role(), Some(Role::Read));
    access.look_again();
    assert_eq!(role(), None);
}
